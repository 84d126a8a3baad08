// A ring of bytes that is allocated in order and reclaimed in order: payloads of tasks, and the heap for intermediates.
//
// Positions only grow; they count all bytes that were ever passed. An allocation is contiguous: one that would cross the end
// skips to the start of the next lap. An empty ring starts a lap anew, so that a request of the full capacity always fits then
// and small graphs stay in the same, warm bytes. Owned by the submitter; no other thread touches it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace simpler::graph {

class ByteRing {
 public:
  static constexpr uint64_t kAlignment = 64;

  static uint64_t round_up(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  void reset(std::byte *bytes, uint64_t capacity) {
    bytes_ = bytes;
    restart(capacity);
  }
  // Starts over at offset 0 with a capacity of `capacity`; the ring must be empty.
  void restart(uint64_t capacity) {
    capacity_ = capacity;
    head_ = tail_ = offset_ = peak_ = 0;
  }

  // Whether `bytes` (a multiple of kAlignment) contiguous bytes are free.
  bool fits(uint64_t bytes) const {
    if (head_ == tail_) return bytes <= capacity_;
    return head_ + skip_before(bytes) + bytes - tail_ <= capacity_;
  }
  // Offset of `bytes` contiguous bytes, which must fit.
  uint64_t allocate(uint64_t bytes) {
    if (head_ == tail_ && offset_ != 0) {
      head_ += capacity_ - offset_;
      tail_ = head_;
      offset_ = 0;
    } else if (const uint64_t skip = skip_before(bytes); skip != 0) {
      head_ += skip;
      offset_ = 0;
    }
    const uint64_t start = offset_;
    head_ += bytes;
    offset_ += bytes;
    if (offset_ == capacity_) offset_ = 0;
    peak_ = std::max(peak_, head_ - tail_);
    return start;
  }
  // Everything before `position` is free. Older positions than the tail are ignored.
  void reclaim_to(uint64_t position) { tail_ = std::max(tail_, position); }

  std::byte *at(uint64_t offset) const { return bytes_ + offset; }
  uint64_t head() const { return head_; }
  uint64_t used() const { return head_ - tail_; }
  uint64_t capacity() const { return capacity_; }
  uint64_t peak() const { return peak_; }

 private:
  uint64_t skip_before(uint64_t bytes) const { return offset_ + bytes > capacity_ ? capacity_ - offset_ : 0; }

  std::byte *bytes_ = nullptr;
  uint64_t capacity_ = 0;
  uint64_t head_ = 0;    // position at which the next allocation starts, unless it skips
  uint64_t tail_ = 0;    // position of the oldest byte in use
  uint64_t offset_ = 0;  // of head_ in its lap, below capacity_
  uint64_t peak_ = 0;
};

}  // namespace simpler::graph
