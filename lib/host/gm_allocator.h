// Ranges of GM: buffers and staged tensors. First fit from low addresses, so that the pages in use stay few and warm; freed
// neighbours merge. Ranges that hold bytes of an earlier user are known, so that a new one can be cleared.
//
// Not thread-safe: the worker locks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace simpler::host {

class GmAllocator {
 public:
  static constexpr uint64_t kAlignment = 64;

  explicit GmAllocator(uint64_t bytes);

  // Offset of `bytes` (from 1; rounded up to kAlignment), or nothing if no free range is large enough.
  std::optional<uint64_t> allocate(uint64_t bytes);
  void free(uint64_t offset, uint64_t bytes);

  // Bytes of [offset, offset + bytes) that may have been written before: those below the highest end ever handed out, at the
  // time before the last allocate() of this range.
  uint64_t dirty_bytes(uint64_t offset, uint64_t bytes) const;

  uint64_t used() const { return used_; }
  uint64_t capacity() const { return capacity_; }
  uint64_t largest_free() const;

 private:
  static uint64_t round_up(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  const uint64_t capacity_;
  uint64_t used_ = 0;
  uint64_t high_ = 0;                  // highest end handed out, this allocation included
  uint64_t high_before_ = 0;           // the same before the last allocation
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes
};

}  // namespace simpler::host
