#include "host/registry.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/shared_memory.h"

namespace simpler::host {

namespace {

constexpr uint64_t kImageBytesMax = uint64_t{1} << 32;
constexpr size_t kImagesMax = 4096;
constexpr size_t kKernelsMax = 16384;  // what fits into one control message with ordinary names
constexpr uint64_t kPageBytes = 4096;

// One image's bytes: borrowed from the caller, or mapped from a file.
class ImageBytes {
 public:
  ImageBytes(const simpler_image &image, size_t index) {
    if ((image.path != nullptr) == (image.data != nullptr))
      throw_error(SIMPLER_INVALID_ARGUMENT, "desc.images[{}]: {} of path and data are set; set exactly one", index,
                  image.path != nullptr ? "both" : "none");
    if (image.path != nullptr)
      map_file(image.path);
    else
      bytes_ = {static_cast<const std::byte *>(image.data), image.size};
    name_ = image.path != nullptr ? std::string(image.path) : fmt::format("desc.images[{}]", index);
    check_elf();
  }
  ~ImageBytes() {
    if (mapping_ != nullptr) munmap(mapping_, bytes_.size());
  }
  ImageBytes(ImageBytes &&other) noexcept
      : bytes_(other.bytes_), mapping_(std::exchange(other.mapping_, nullptr)), name_(std::move(other.name_)) {}
  ImageBytes &operator=(ImageBytes &&) = delete;
  ImageBytes(const ImageBytes &) = delete;
  ImageBytes &operator=(const ImageBytes &) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void map_file(const char *path) {
    const UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) {
      const int error = errno;
      if (error == ENOENT || error == ENOTDIR) throw_error(SIMPLER_NOT_FOUND, "the image {} does not exist", path);
      throw_system_error(error, fmt::format("opening the image {}", path));
    }
    struct stat status;
    if (fstat(fd.get(), &status) != 0) throw_system_error(errno, fmt::format("reading the image {}", path));
    if (!S_ISREG(status.st_mode)) throw_error(SIMPLER_LOAD_IMAGE, "{} is not a regular file", path);
    if (status.st_size == 0) throw_error(SIMPLER_LOAD_IMAGE, "{} is empty", path);
    const auto size = static_cast<size_t>(status.st_size);
    void *mapping = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (mapping == MAP_FAILED) throw_system_error(errno, fmt::format("reading the image {}", path));
    mapping_ = mapping;
    bytes_ = {static_cast<const std::byte *>(mapping), size};
  }
  // A quick look, so that the usual mistakes are told without asking a chip, which checks the rest.
  void check_elf() const {
    if (bytes_.size() > kImageBytesMax)
      throw_error(SIMPLER_LOAD_IMAGE, "{} has {} bytes; at most {} can be loaded", name_, bytes_.size(), kImageBytesMax);
    if (bytes_.size() < EI_NIDENT || memcmp(bytes_.data(), ELFMAG, SELFMAG) != 0)
      throw_error(SIMPLER_LOAD_IMAGE,
                  "{} is not an ELF shared object: it does not begin with 0x7f 'ELF' (build it with -shared -fPIC)", name_);
  }

  std::span<const std::byte> bytes_;
  void *mapping_ = nullptr;
  std::string name_;
};

// Answers of several chips to one request.
struct Gather {
  std::atomic<uint32_t> open;
  Doorbell bell;
  std::mutex mutex;  // guards the two below
  ErrorInfo first_error;
  control::LoadedCallable loaded;

  explicit Gather(size_t count) : open(static_cast<uint32_t>(count)) {}
  void answer(const ErrorInfo &error, const control::LoadedCallable *result) {
    {
      const std::lock_guard lock(mutex);
      if (!error.ok() && first_error.ok()) first_error = error;
      if (error.ok() && result != nullptr) loaded = *result;
    }
    open.fetch_sub(1, std::memory_order_seq_cst);
    bell.ring();
  }
  // Ends for sure: a port answers every request, also when its chip dies.
  void wait() {
    bell.wait(kForever, [this] { return open.load(std::memory_order_seq_cst) == 0; });
  }
};

void check_kernels(const simpler_callable_desc &desc) {
  std::set<uint32_t> ids;
  for (size_t i = 0; i < desc.kernel_count; i++) {
    const simpler_kernel_desc &kernel = desc.kernels[i];
    if (kernel.symbol == nullptr || *kernel.symbol == '\0')
      throw_error(SIMPLER_INVALID_ARGUMENT, "desc.kernels[{}].symbol is {}", i, kernel.symbol == nullptr ? "NULL" : "empty");
    if (kernel.kernel_id == SIMPLER_NO_KERNEL)
      throw_error(SIMPLER_INVALID_ARGUMENT, "desc.kernels[{}].kernel_id is SIMPLER_NO_KERNEL, which is no id", i);
    if (!ids.insert(kernel.kernel_id).second)
      throw_error(SIMPLER_INVALID_ARGUMENT, "desc.kernels[{}].kernel_id is {}, which an earlier kernel has", i,
                  kernel.kernel_id);
    if (kernel.core_type != SIMPLER_CORE_AIC && kernel.core_type != SIMPLER_CORE_AIV)
      throw_error(SIMPLER_INVALID_ARGUMENT, "desc.kernels[{}].core_type is {}; allowed are 1 (AIC) and 2 (AIV)", i,
                  kernel.core_type);
    if (kernel.image >= desc.image_count)
      throw_error(SIMPLER_INVALID_ARGUMENT, "desc.kernels[{}].image is {}; there are {} images", i, kernel.image,
                  desc.image_count);
    if (kernel.reserved != 0)
      throw_error(SIMPLER_INVALID_ARGUMENT, "desc.kernels[{}].reserved is {}; it must be 0", i, kernel.reserved);
  }
}

void check_desc(const simpler_callable_desc &desc) {
  if (desc.image_count == 0 || desc.image_count > kImagesMax)
    throw_error(SIMPLER_INVALID_ARGUMENT, "desc.image_count is {}; allowed are 1 to {}", desc.image_count, kImagesMax);
  if (desc.images == nullptr)
    throw_error(SIMPLER_INVALID_ARGUMENT, "desc.images is NULL with image_count {}", desc.image_count);
  if (desc.kernel_count > kKernelsMax)
    throw_error(SIMPLER_INVALID_ARGUMENT, "desc.kernel_count is {}; at most {} are allowed", desc.kernel_count, kKernelsMax);
  if (desc.kernels == nullptr && desc.kernel_count != 0)
    throw_error(SIMPLER_INVALID_ARGUMENT, "desc.kernels is NULL with kernel_count {}", desc.kernel_count);
  if (desc.signature == nullptr && desc.signature_count != 0)
    throw_error(SIMPLER_INVALID_ARGUMENT, "desc.signature is NULL with signature_count {}", desc.signature_count);
  for (size_t i = 0; i < desc.signature_count; i++) {
    if (desc.signature[i] < SIMPLER_PARAMETER_SCALAR || desc.signature[i] > SIMPLER_PARAMETER_INOUT)
      throw_error(SIMPLER_INVALID_ARGUMENT, "desc.signature[{}] is {}; allowed are {} to {}", i, desc.signature[i],
                  static_cast<unsigned>(SIMPLER_PARAMETER_SCALAR), static_cast<unsigned>(SIMPLER_PARAMETER_INOUT));
  }
  if (desc.reserved != 0) throw_error(SIMPLER_INVALID_ARGUMENT, "desc.reserved is {}; it must be 0", desc.reserved);
  const bool has_orchestration = desc.orchestration_symbol != nullptr && *desc.orchestration_symbol != '\0';
  if (has_orchestration && desc.orchestration_image >= desc.image_count)
    throw_error(SIMPLER_INVALID_ARGUMENT, "desc.orchestration_image is {}; there are {} images", desc.orchestration_image,
                desc.image_count);
  if (!has_orchestration && desc.kernel_count == 0 && desc.image_count != 1)
    throw_error(SIMPLER_INVALID_ARGUMENT,
                "desc has {} images, no orchestration_symbol and no kernels; only a single image can describe itself",
                desc.image_count);
  if (!has_orchestration && desc.kernel_count > 1)
    throw_error(SIMPLER_INVALID_ARGUMENT,
                "desc has {} kernels and no orchestration_symbol; without one there is exactly one kernel",
                desc.kernel_count);
  check_kernels(desc);
}

}  // namespace

struct Registry::Images {
  std::vector<ImageBytes> images;

  explicit Images(const simpler_callable_desc &desc) {
    for (size_t i = 0; i < desc.image_count; i++) images.emplace_back(desc.images[i], i);
  }

  // All images in one sealed memfd, each from a page boundary on.
  std::shared_ptr<const UniqueFd> pack(std::vector<control::ImageRange> &ranges) const {
    static constexpr std::byte kPadding[kPageBytes] = {};
    std::vector<std::span<const std::byte>> parts;
    uint64_t offset = 0;
    for (const ImageBytes &image : images) {
      ranges.push_back({offset, image.bytes().size()});
      parts.push_back(image.bytes());
      offset += image.bytes().size();
      const uint64_t padding = (kPageBytes - offset % kPageBytes) % kPageBytes;
      parts.emplace_back(kPadding, padding);
      offset += padding;
    }
    return std::make_shared<const UniqueFd>(make_sealed_memfd("simpler-images", parts));
  }

  Digest digest(const simpler_callable_desc &desc) const {
    auto text = [](const char *string) { return std::string_view(string != nullptr ? string : ""); };
    Sha256 hash;
    hash.update_text("simpler callable 1");
    hash.update_text(text(desc.name));
    hash.update_text(text(desc.orchestration_symbol));
    hash.update_u64(desc.orchestration_image);
    hash.update_u64(desc.kernel_count);
    for (size_t i = 0; i < desc.kernel_count; i++) {
      hash.update_u64(desc.kernels[i].kernel_id);
      hash.update_u64(desc.kernels[i].core_type);
      hash.update_u64(desc.kernels[i].image);
      hash.update_text(text(desc.kernels[i].symbol));
    }
    hash.update_u64(desc.signature_count);
    for (size_t i = 0; i < desc.signature_count; i++) hash.update_u64(desc.signature[i]);
    hash.update_u64(images.size());
    for (const ImageBytes &image : images) {
      hash.update_u64(image.bytes().size());
      hash.update(image.bytes());
    }
    return hash.finish();
  }
};

Registry::Registry(uint32_t capacity, LivePorts live_ports) : live_ports_(std::move(live_ports)), cids_(capacity) {}

void Registry::set_state(CallableEntry &entry, CallableState state) {
  entry.state.store(state, std::memory_order_seq_cst);
  entry.changed.ring();
}

void Registry::wait_while(CallableEntry &entry, CallableState state) {
  entry.changed.wait(kForever, [&] { return entry.state.load(std::memory_order_seq_cst) != state; });
}

std::shared_ptr<CallableEntry> Registry::add(const simpler_callable_desc &desc) {
  check_desc(desc);
  const Images images(desc);
  bool is_new = false;
  std::shared_ptr<CallableEntry> entry = find_or_reserve(desc, images, &is_new);
  if (is_new) {
    load(entry);
  } else {
    wait_while(*entry, CallableState::kLoading);  // somebody else loads the same content: the loader ends it in any case
  }
  if (entry->state.load(std::memory_order_seq_cst) == CallableState::kFailed) throw Error(entry->error);
  return entry;
}

std::shared_ptr<CallableEntry> Registry::find_or_reserve(const simpler_callable_desc &desc, const Images &images,
                                                         bool *is_new) {
  const Digest digest = images.digest(desc);
  auto entry = std::make_shared<CallableEntry>();
  entry->digest = digest;
  entry->handles = 1;
  for (;;) {
    std::shared_ptr<CallableEntry> leaving;
    {
      const std::lock_guard lock(mutex_);
      const auto it = by_content_.find(digest);
      if (it != by_content_.end()) {
        it->second->handles++;
        return it->second;
      }
      if (reserve_cid(*entry)) {
        by_content_.emplace(digest, entry);
        break;
      }
      if (unloading_.empty())
        throw_error(SIMPLER_CAPACITY_CALLABLES,
                    "all {} callable slots are in use; unregister a callable or raise the option `callable_capacity`",
                    cids_.size());
      leaving = unloading_.front();
    }
    // Its slot is about to be free: every chip answers, or is gone.
    wait_while(*leaving, CallableState::kUnloading);
  }
  *is_new = true;
  try {
    auto manifest = std::make_shared<control::CallableManifest>();
    manifest->name = desc.name != nullptr ? desc.name : "";
    manifest->digest = digest;
    entry->images = images.pack(manifest->images);
    manifest->orchestration_symbol = desc.orchestration_symbol != nullptr ? desc.orchestration_symbol : "";
    manifest->orchestration_image = desc.orchestration_image;
    for (size_t i = 0; i < desc.kernel_count; i++)
      manifest->kernels.push_back(
          {desc.kernels[i].kernel_id, desc.kernels[i].core_type, desc.kernels[i].image, desc.kernels[i].symbol});
    entry->manifest = std::move(manifest);
    entry->signature.assign(desc.signature, desc.signature + desc.signature_count);
  } catch (...) {
    entry->error = capture_current_exception();
    const std::lock_guard lock(mutex_);
    by_content_.erase(digest);
    cids_[entry->cid].used = false;
    set_state(*entry, CallableState::kFailed);
  }
  return entry;
}

bool Registry::reserve_cid(CallableEntry &entry) {
  const auto free = std::find_if(cids_.begin(), cids_.end(), [](const Cid &cid) { return !cid.used; });
  if (free == cids_.end()) return false;
  free->used = true;
  free->generation++;
  entry.cid = static_cast<uint32_t>(free - cids_.begin());
  entry.generation = free->generation;
  return true;
}

void Registry::load(const std::shared_ptr<CallableEntry> &entry) {
  if (entry->state.load(std::memory_order_seq_cst) == CallableState::kFailed) return;
  const std::vector<std::shared_ptr<ChipPort>> ports = live_ports_();
  ErrorInfo error;
  if (ports.empty()) {
    error.code = SIMPLER_CHIP_LOST;
    error.message = "no chip of this worker is alive";
  } else {
    struct Result {
      std::atomic<bool> loaded{false};
    };
    auto results = std::make_shared<std::vector<Result>>(ports.size());
    auto gather = std::make_shared<Gather>(ports.size());
    for (size_t i = 0; i < ports.size(); i++) {
      ports[i]->load(entry->cid, entry->generation, entry->manifest, entry->images,
                     [gather, results, i](const ErrorInfo &answer, const control::LoadedCallable &loaded) {
                       (*results)[i].loaded.store(answer.ok(), std::memory_order_relaxed);  // published by the gather
                       gather->answer(answer, &loaded);
                     });
    }
    gather->wait();
    error = gather->first_error;
    entry->loaded = gather->loaded;
    if (!error.ok()) {
      // One refused: nobody keeps it.
      std::vector<std::shared_ptr<ChipPort>> undo;
      for (size_t i = 0; i < ports.size(); i++) {
        if ((*results)[i].loaded.load(std::memory_order_relaxed)) undo.push_back(ports[i]);
      }
      auto undone = std::make_shared<Gather>(undo.size());
      for (const std::shared_ptr<ChipPort> &port : undo)
        port->unload(entry->cid, entry->generation, [undone](const ErrorInfo &answer) { undone->answer(answer, nullptr); });
      undone->wait();
    }
  }
  if (error.callable.empty()) error.callable = entry->manifest->name;
  const std::lock_guard lock(mutex_);
  if (error.ok()) {
    set_state(*entry, CallableState::kLoaded);
    return;
  }
  entry->error = std::move(error);
  by_content_.erase(entry->digest);
  cids_[entry->cid].used = false;
  set_state(*entry, CallableState::kFailed);
}

void Registry::remove(const std::shared_ptr<CallableEntry> &entry) {
  {
    const std::lock_guard lock(mutex_);
    SIMPLER_ASSERT(entry->handles > 0);
    entry->handles--;
    if (entry->handles != 0 || entry->runs != 0) return;
    start_unloading(entry);
  }
  begin_unload(entry);
  wait_while(*entry, CallableState::kUnloading);
}

void Registry::begin_run(CallableEntry &entry) {
  const std::lock_guard lock(mutex_);
  const CallableState state = entry.state.load(std::memory_order_relaxed);
  if (state != CallableState::kLoaded) throw_error(SIMPLER_INVALID_HANDLE, "task.callable has been unregistered already");
  entry.runs++;
}

void Registry::end_run(const std::shared_ptr<CallableEntry> &entry) {
  {
    const std::lock_guard lock(mutex_);
    SIMPLER_ASSERT(entry->runs > 0);
    entry->runs--;
    if (entry->handles != 0 || entry->runs != 0) return;
    start_unloading(entry);
  }
  begin_unload(entry);
}

void Registry::start_unloading(const std::shared_ptr<CallableEntry> &entry) {
  set_state(*entry, CallableState::kUnloading);
  by_content_.erase(entry->digest);
  unloading_.push_back(entry);
}

// Sends the unload to every chip; the last answer frees the cid.
void Registry::begin_unload(const std::shared_ptr<CallableEntry> &entry) {
  const std::vector<std::shared_ptr<ChipPort>> ports = live_ports_();
  auto open = std::make_shared<std::atomic<size_t>>(ports.size() + 1);
  auto answered = [this, entry, open](const ErrorInfo &) {
    // Whatever the answer: the slot is free, or its chip is gone.
    if (open->fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    const std::lock_guard lock(mutex_);
    cids_[entry->cid].used = false;
    unloading_.erase(std::find(unloading_.begin(), unloading_.end(), entry));
    set_state(*entry, CallableState::kGone);
  };
  for (const std::shared_ptr<ChipPort> &port : ports) port->unload(entry->cid, entry->generation, answered);
  answered({});
}

uint32_t Registry::loaded() const {
  const std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(std::count_if(cids_.begin(), cids_.end(), [](const Cid &cid) { return cid.used; }));
}

}  // namespace simpler::host
