#include "chip/callable_table.h"

#include <algorithm>
#include <cerrno>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/error.h"
#include "chip/geometry.h"

namespace simpler::chip {

namespace {

// The bytes of a sealed memfd, mapped while a callable is loaded.
class MappedFile {
 public:
  explicit MappedFile(const UniqueFd &fd) {
    struct stat status;
    if (fstat(fd.get(), &status) != 0) throw_system_error(errno, "fstat of the images");
    bytes_ = static_cast<size_t>(status.st_size);
    if (bytes_ == 0) return;
    void *at = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (at == MAP_FAILED) throw_system_error(errno, "mapping the images");
    data_ = static_cast<const std::byte *>(at);
  }
  ~MappedFile() {
    if (data_ != nullptr) munmap(const_cast<std::byte *>(data_), bytes_);
  }
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  std::span<const std::byte> span() const { return {data_, bytes_}; }

 private:
  const std::byte *data_ = nullptr;
  size_t bytes_ = 0;
};

// ISO C++ has no conversion from object to function pointer that dlsym needs; POSIX guarantees it.
template <class Function>
Function as_function(void *address) {
  return reinterpret_cast<Function>(address);
}

bool is_self_describing(const control::CallableManifest &manifest) {
  return manifest.images.size() == 1 && manifest.orchestration_symbol.empty() && manifest.kernels.empty();
}

}  // namespace

// ---- Callable -------------------------------------------------------------------------------------------------------

std::shared_ptr<const Callable> Callable::load(const control::CallableManifest &manifest, const UniqueFd &images) {
  if (manifest.images.empty()) throw_error(SIMPLER_INVALID_ARGUMENT, "callable \"{}\" has no image", manifest.name);
  std::shared_ptr<Callable> callable(new Callable);
  callable->name_ = manifest.name;
  const MappedFile file(images);
  for (size_t i = 0; i < manifest.images.size(); i++) {
    const control::ImageRange range = manifest.images[i];
    const std::span<const std::byte> all = file.span();
    if (range.offset > all.size() || range.bytes > all.size() - range.offset)
      throw_error(SIMPLER_INVALID_ARGUMENT, "image {}: bytes {} to {} of a file of {} bytes", i, range.offset,
                  range.offset + range.bytes, all.size());
    callable->images_.push_back(process_loader().load(all.subspan(range.offset, range.bytes),
                                                      fmt::format("image {} of callable \"{}\"", i, manifest.name)));
  }
  if (is_self_describing(manifest)) {
    callable->load_table(manifest);
  } else {
    callable->load_symbols(manifest);
  }
  callable->finish();
  return callable;
}

void Callable::load_table(const control::CallableManifest &manifest) {
  const LoadedImage &image = *images_.front();
  void *symbol = image.find_symbol(SIMPLER_CALLABLE_TABLE_SYMBOL);
  if (symbol == nullptr)
    throw_error(SIMPLER_LOAD_SYMBOL,
                "{}: no exported symbol \"{}\": add SIMPLER_CALLABLE(...) to it, or name orchestration and kernels when "
                "registering",
                image.description(), SIMPLER_CALLABLE_TABLE_SYMBOL);
  const auto *table = static_cast<const simpler_callable_table *>(symbol);
  // The first two fields are the same in every version of the table.
  if (table->device_abi == 0 || table->device_abi > SIMPLER_DEVICE_ABI)
    throw_error(SIMPLER_LOAD_VERSION, "{}: built for device interface {}, this chip has {}", image.description(),
                table->device_abi, SIMPLER_DEVICE_ABI);
  if (table->struct_size < sizeof(simpler_callable_table))
    throw_error(SIMPLER_LOAD_VERSION, "{}: its callable table has {} bytes, device interface {} needs {}",
                image.description(), table->struct_size, SIMPLER_DEVICE_ABI, sizeof(simpler_callable_table));
  if (table->kernel_count != 0 && table->kernels == nullptr)
    throw_error(SIMPLER_INVALID_ARGUMENT, "{}: its table counts {} kernels and has none", image.description(),
                table->kernel_count);
  if (manifest.name.empty() && table->name != nullptr) name_ = table->name;
  if (name_.empty()) name_ = "callable";
  orchestration_ = table->orchestration;
  for (uint32_t i = 0; i < table->kernel_count; i++) {
    const simpler_callable_kernel &kernel = table->kernels[i];
    add_kernel(kernel.kernel_id, kernel.core_type, kernel.function, kernel.name != nullptr ? kernel.name : "");
  }
}

void Callable::load_symbols(const control::CallableManifest &manifest) {
  if (name_.empty()) name_ = "callable";
  const auto image_at = [&](uint32_t number, const std::string &symbol) -> const LoadedImage & {
    if (number >= images_.size())
      throw_error(SIMPLER_INVALID_ARGUMENT, "callable \"{}\": \"{}\" is to come from image {} of {}", name_, symbol, number,
                  images_.size());
    return *images_[number];
  };
  if (!manifest.orchestration_symbol.empty())
    orchestration_ = as_function<simpler_orchestration_fn>(
        image_at(manifest.orchestration_image, manifest.orchestration_symbol).require_symbol(manifest.orchestration_symbol));
  for (const control::KernelEntry &entry : manifest.kernels)
    add_kernel(entry.kernel_id, entry.core_type,
               as_function<simpler_kernel_fn>(image_at(entry.image, entry.symbol).require_symbol(entry.symbol)),
               entry.symbol);
}

void Callable::add_kernel(uint32_t id, simpler_core_type type, simpler_kernel_fn function, std::string name) {
  if (id == SIMPLER_NO_KERNEL)
    throw_error(SIMPLER_INVALID_ARGUMENT, "callable \"{}\": kernel \"{}\" has the id SIMPLER_NO_KERNEL", name_, name);
  if (type != SIMPLER_CORE_AIC && type != SIMPLER_CORE_AIV)
    throw_error(SIMPLER_INVALID_ARGUMENT, "callable \"{}\": kernel {} has core type {}; 1 (AIC) and 2 (AIV) exist", name_,
                id, type);
  if (function == nullptr) throw_error(SIMPLER_INVALID_ARGUMENT, "callable \"{}\": kernel {} has no function", name_, id);
  kernels_.push_back(Kernel{id, type, function, std::move(name)});
}

void Callable::finish() {
  std::sort(kernels_.begin(), kernels_.end(), [](const Kernel &a, const Kernel &b) { return a.id < b.id; });
  for (size_t i = 1; i < kernels_.size(); i++)
    if (kernels_[i].id == kernels_[i - 1].id)
      throw_error(SIMPLER_INVALID_ARGUMENT, "callable \"{}\": kernel id {} is given to \"{}\" and to \"{}\"", name_,
                  kernels_[i].id, kernels_[i - 1].name, kernels_[i].name);
  if (orchestration_ == nullptr && kernels_.size() != 1)
    throw_error(SIMPLER_INVALID_ARGUMENT,
                "callable \"{}\" has no orchestration and {} kernels; without an orchestration there "
                "must be exactly one",
                name_, kernels_.size());
}

const Kernel *Callable::find_kernel(uint32_t id) const {
  const auto found =
      std::lower_bound(kernels_.begin(), kernels_.end(), id, [](const Kernel &k, uint32_t key) { return k.id < key; });
  return found != kernels_.end() && found->id == id ? &*found : nullptr;
}

// ---- CallableTable --------------------------------------------------------------------------------------------------

std::string CallableTable::describe(uint32_t cid) const {
  if (cid >= slots_.size()) return fmt::format("there are {} slots", slots_.size());
  const Slot &slot = slots_[cid];
  if (slot.callable == nullptr) return "the slot is empty";
  return fmt::format("the slot holds generation {} (\"{}\")", slot.generation, slot.callable->name());
}

std::shared_ptr<const Callable> CallableTable::load(uint32_t cid, uint32_t generation,
                                                    const control::CallableManifest &manifest, const UniqueFd &images) {
  const auto check_free = [&] {
    if (cid >= slots_.size()) throw_error(SIMPLER_INVALID_ARGUMENT, "cid {}: {}", cid, describe(cid));
    if (slots_[cid].callable != nullptr) throw_error(SIMPLER_ALREADY_EXISTS, "cid {}: {}", cid, describe(cid));
  };
  {
    const std::lock_guard lock(mutex_);
    check_free();
  }
  std::shared_ptr<const Callable> callable = Callable::load(manifest, images);
  const std::lock_guard lock(mutex_);
  check_free();
  slots_[cid] = Slot{generation, callable};
  return callable;
}

void CallableTable::unload(uint32_t cid, uint32_t generation) {
  std::shared_ptr<const Callable> last;  // released after the lock: dlclose runs destructors of the image
  const std::lock_guard lock(mutex_);
  if (cid >= slots_.size() || slots_[cid].callable == nullptr || slots_[cid].generation != generation)
    throw_error(SIMPLER_NOT_FOUND, "cid {} generation {} is not loaded: {}", cid, generation, describe(cid));
  last = std::move(slots_[cid].callable);
  slots_[cid].callable = nullptr;
}

std::shared_ptr<const Callable> CallableTable::find(uint32_t cid, uint32_t generation) const {
  const std::lock_guard lock(mutex_);
  if (cid >= slots_.size() || slots_[cid].callable == nullptr || slots_[cid].generation != generation)
    throw_error(SIMPLER_INVALID_HANDLE, "callable slot {} generation {} is not loaded: {}", cid, generation, describe(cid));
  return slots_[cid].callable;
}

}  // namespace simpler::chip
