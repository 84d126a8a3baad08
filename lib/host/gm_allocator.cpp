#include "host/gm_allocator.h"

#include <algorithm>

#include "base/error.h"

namespace simpler::host {

GmAllocator::GmAllocator(uint64_t bytes) : capacity_(bytes / kAlignment * kAlignment) {
  if (capacity_ != 0) free_.emplace(0, capacity_);
}

std::optional<uint64_t> GmAllocator::allocate(uint64_t bytes) {
  if (bytes == 0 || bytes > capacity_) return std::nullopt;
  const uint64_t size = round_up(bytes);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < size) continue;
    const uint64_t offset = it->first;
    const uint64_t rest = it->second - size;
    free_.erase(it);
    if (rest != 0) free_.emplace(offset + size, rest);
    used_ += size;
    high_before_ = high_;
    high_ = std::max(high_, offset + size);
    return offset;
  }
  return std::nullopt;
}

void GmAllocator::free(uint64_t offset, uint64_t bytes) {
  uint64_t size = round_up(bytes);
  used_ -= size;
  auto next = free_.lower_bound(offset);
  SIMPLER_ASSERT(next == free_.end() || offset + size <= next->first);
  if (next != free_.end() && offset + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    SIMPLER_ASSERT(before->first + before->second <= offset);
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  free_.emplace(offset, size);
}

uint64_t GmAllocator::dirty_bytes(uint64_t offset, uint64_t bytes) const {
  return offset >= high_before_ ? 0 : std::min(bytes, high_before_ - offset);
}

uint64_t GmAllocator::largest_free() const {
  uint64_t largest = 0;
  for (const auto &[offset, bytes] : free_) largest = std::max(largest, bytes);
  return largest;
}

}  // namespace simpler::host
