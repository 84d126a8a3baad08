#include "chip/image_loader.h"

#include <cerrno>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "base/error.h"
#include "chip/elf_image.h"

namespace simpler::chip {

namespace {

std::string path_of(const UniqueFd &fd) { return fmt::format("/proc/self/fd/{}", fd.get()); }

Digest digest_of(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

UniqueFd make_private_copy(std::span<const std::byte> bytes) {
  UniqueFd fd(memfd_create("simpler-image", MFD_CLOEXEC));
  if (!fd.valid()) throw_system_error(errno, "memfd_create for an image");
  while (!bytes.empty()) {
    const ssize_t written = write(fd.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw_system_error(written < 0 ? errno : ENOSPC, "copying an image");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return fd;
}

// Reads a private copy back, to find out what a pinned object was. Empty on failure.
std::vector<std::byte> read_back(const UniqueFd &fd) {
  struct stat status;
  if (fstat(fd.get(), &status) != 0 || status.st_size <= 0) return {};
  std::vector<std::byte> bytes(static_cast<size_t>(status.st_size));
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t got = pread(fd.get(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {};
    at += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace

LoadedImage::~LoadedImage() { loader_.unload(*this); }

void *LoadedImage::find_symbol(const char *name) const { return dlsym(handle_, name); }

void *LoadedImage::require_symbol(const std::string &name) const {
  void *address = find_symbol(name.c_str());
  if (address == nullptr)
    throw_error(SIMPLER_LOAD_SYMBOL,
                "{}: no exported symbol \"{}\" (is it declared SIMPLER_EXPORT, and extern \"C\" in C++?)", description_,
                name);
  return address;
}

UniqueFd ImageLoader::take_pinned(std::span<const std::byte> patched) {
  const std::lock_guard lock(mutex_);
  if (pinned_.empty()) return {};  // the usual case costs no digest
  const auto found = pinned_.find(digest_of(patched));
  if (found == pinned_.end()) return {};
  UniqueFd fd = std::move(found->second);
  pinned_.erase(found);
  return fd;
}

std::shared_ptr<const LoadedImage> ImageLoader::load(std::span<const std::byte> bytes, std::string description) {
  check_elf(bytes, description);
  std::vector<std::byte> patched;
  if (const std::vector<size_t> unique = find_unique_symbols(bytes); !unique.empty()) {
    patched.assign(bytes.begin(), bytes.end());
    for (const size_t at : unique) patched[at] = make_weak(patched[at]);
    bytes = patched;
  }
  UniqueFd fd = take_pinned(bytes);
  if (!fd.valid()) fd = make_private_copy(bytes);
  void *handle = dlopen(path_of(fd).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char *text = dlerror();
    // the path means nothing to the reader: leave it out
    std::string reason = text != nullptr ? text : "no reason given";
    const std::string prefix = path_of(fd) + ": ";
    if (reason.starts_with(prefix)) reason.erase(0, prefix.size());
    throw_error(SIMPLER_LOAD_IMAGE, "{}: the dynamic loader refused it: {}", description, reason);
  }
  return std::shared_ptr<const LoadedImage>(new LoadedImage(*this, handle, std::move(fd), std::move(description)));
}

void ImageLoader::unload(LoadedImage &image) noexcept {
  dlclose(image.handle_);
  void *still_there = dlopen(path_of(image.fd_).c_str(), RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
  if (still_there == nullptr) return;  // gone; the descriptor goes with the LoadedImage
  dlclose(still_there);
  // It stays in memory under this name: the descriptor must stay too.
  try {
    const Digest digest = digest_of(read_back(image.fd_));
    const std::lock_guard lock(mutex_);
    pinned_.emplace(digest, std::move(image.fd_));
  } catch (...) {
    image.fd_.release();  // out of memory: keep the descriptor open without remembering it
  }
}

void ImageLoader::release_pinned() noexcept {
  const std::lock_guard lock(mutex_);
  for (auto it = pinned_.begin(); it != pinned_.end();) {
    const std::string path = path_of(it->second);
    // Closing it once more makes the loader look whether it can go now.
    if (void *handle = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL)) dlclose(handle);
    void *still_there = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
    if (still_there != nullptr) {
      dlclose(still_there);
      ++it;
    } else {
      it = pinned_.erase(it);
    }
  }
}

size_t ImageLoader::pinned_count() const {
  const std::lock_guard lock(mutex_);
  return pinned_.size();
}

ImageLoader &process_loader() {
  static ImageLoader *const loader = new ImageLoader;
  return *loader;
}

}  // namespace simpler::chip
