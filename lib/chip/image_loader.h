// Loads the shared objects of callables into this process, and unloads them so that nothing is left behind.
//
// Rules that the dynamic loader forces on us, and where they are kept:
//  - glibc takes an object for loaded already when its name or its inode matches. Every image is therefore copied into a
//    memfd of its own (an inode of its own), and its name /proc/self/fd/N cannot come back while the object may be loaded,
//    because the descriptor N stays open as long.
//  - dlclose does not always unload (NODELETE, unique symbols, thread-local destructors pending). After it we ask with
//    RTLD_NOLOAD; an object that stayed keeps its descriptor for good and is remembered by the digest of its bytes, so that
//    loading equal bytes again takes it up instead of adding another copy. Its variables then keep their values.
//  - STB_GNU_UNIQUE symbols would be merged across images and pin them. They are made weak in the private copy.
//  - RTLD_NOW: what is undefined shows at registration, not in the middle of a run. RTLD_LOCAL: equal names in two images
//    do not meet.
//
// Threads: any; the list of pinned objects is under a lock of its own. The loader is one per process (`process_loader`), since the
// dynamic loader is.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "base/digest.h"
#include "base/unique_fd.h"

namespace simpler::chip {

class ImageLoader;

// One loaded object. Unloaded when the last owner drops it; nobody may then be inside its code.
class LoadedImage {
 public:
  ~LoadedImage();
  LoadedImage(const LoadedImage &) = delete;
  LoadedImage &operator=(const LoadedImage &) = delete;

  // Address of an exported symbol, or nullptr.
  void *find_symbol(const char *name) const;
  // As find_symbol; throws LOAD_SYMBOL naming symbol and image.
  void *require_symbol(const std::string &name) const;
  // "image 2 of callable \"x\"", for errors.
  const std::string &description() const { return description_; }

 private:
  friend class ImageLoader;
  LoadedImage(ImageLoader &loader, void *handle, UniqueFd fd, std::string description)
      : loader_(loader), handle_(handle), fd_(std::move(fd)), description_(std::move(description)) {}

  ImageLoader &loader_;
  void *handle_;
  UniqueFd fd_;  // of the private copy; the name of the object is /proc/self/fd/<this>
  std::string description_;
};

class ImageLoader {
 public:
  // Checks the bytes and loads them. `description` names the image in errors. Throws LOAD_IMAGE (what the bytes are instead
  // of a shared object of this machine, or the dynamic loader's text), SYSTEM_ERROR, OUT_OF_MEMORY.
  std::shared_ptr<const LoadedImage> load(std::span<const std::byte> bytes, std::string description);

  // Drops objects that could not go when they were unloaded, but can now: those whose thread-local destructors had still to
  // run, after those threads have ended.
  void release_pinned() noexcept;
  // Objects that could not be unloaded and that nobody uses now; for tests and statistics.
  size_t pinned_count() const;

 private:
  friend class LoadedImage;

  void unload(LoadedImage &image) noexcept;
  // A pinned copy of these bytes, taken out of the list; invalid when there is none.
  UniqueFd take_pinned(std::span<const std::byte> patched);

  mutable std::mutex mutex_;  // guards pinned_; nothing is locked under it
  // Descriptors of objects that dlclose left in memory, by the digest of their (patched) bytes. Equal copies that were in use
  // at the same time may be pinned side by side.
  std::multimap<Digest, UniqueFd> pinned_;
};

// The loader of this process. Never destroyed: objects may be released by threads that end after main().
ImageLoader &process_loader();

}  // namespace simpler::chip
