// Memory that can be mapped by several processes: an anonymous memfd and one mapping of it. No name anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/unique_fd.h"

namespace simpler {

class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(SharedMemory &&other) noexcept;
  SharedMemory &operator=(SharedMemory &&other) noexcept;
  SharedMemory(const SharedMemory &) = delete;
  SharedMemory &operator=(const SharedMemory &) = delete;
  ~SharedMemory();

  // A new segment of `bytes` zero bytes, sparse (pages are taken when first touched), mapped read-write. `what` names it in
  // errors and in /proc. Throws SYSTEM_ERROR, OUT_OF_MEMORY.
  static SharedMemory create(const char *what, uint64_t bytes);
  // Maps a segment received from a peer. Throws PROTOCOL_ERROR if it is smaller than `bytes`.
  static SharedMemory map(const char *what, UniqueFd fd, uint64_t bytes);

  std::byte *data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  std::span<std::byte> span() const { return {data_, static_cast<size_t>(bytes_)}; }
  int fd() const { return fd_.get(); }

  // Gives the pages of [offset, offset + bytes) back: they read as zero again. Whole pages are punched out, rests are set.
  void zero(uint64_t offset, uint64_t bytes) const;

 private:
  UniqueFd fd_;
  std::byte *data_ = nullptr;
  uint64_t bytes_ = 0;
};

// A new memfd with these bytes, sealed against every change: how images travel to chips.
UniqueFd make_sealed_memfd(const char *what, std::span<const std::span<const std::byte>> parts);

}  // namespace simpler
