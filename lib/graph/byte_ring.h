// A ring of bytes that is allocated in order and reclaimed in order: payloads of tasks, and the heap for intermediates.
//
// Positions only grow; position % capacity is the offset. An allocation is contiguous: one that would cross the end skips to
// the start of the next lap. An empty ring starts a lap anew, so that a request of the full capacity always fits then and
// small graphs stay in the same, warm bytes. Owned by the submitter; no other thread touches it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace simpler::graph {

class ByteRing {
 public:
  static constexpr uint64_t kAlignment = 64;
  static constexpr uint64_t kNoRoom = UINT64_MAX;

  void reset(std::byte *bytes, uint64_t capacity) {
    bytes_ = bytes;
    capacity_ = capacity;
    head_ = tail_ = 0;
  }
  static uint64_t round_up(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  // Offset of `bytes` (a multiple of kAlignment) contiguous bytes, or kNoRoom.
  uint64_t allocate(uint64_t bytes) {
    if (head_ == tail_) head_ = tail_ = next_lap(head_);
    uint64_t head = head_;
    if (head % capacity_ + bytes > capacity_) head = next_lap(head);
    if (head + bytes - tail_ > capacity_) return kNoRoom;
    head_ = head + bytes;
    peak_ = std::max(peak_, head_ - tail_);
    return head % capacity_;
  }
  // Everything before `position` is free. Older positions than the tail are ignored.
  void reclaim_to(uint64_t position) { tail_ = std::max(tail_, position); }

  std::byte *at(uint64_t offset) const { return bytes_ + offset; }
  uint64_t head() const { return head_; }
  uint64_t used() const { return head_ - tail_; }
  uint64_t capacity() const { return capacity_; }
  uint64_t peak() const { return peak_; }
  void reset_peak() { peak_ = used(); }
  // Starts over at offset 0 with a capacity of `capacity`; the ring must be empty.
  void restart(uint64_t capacity) {
    capacity_ = capacity;
    head_ = tail_ = 0;
    peak_ = 0;
  }

 private:
  uint64_t next_lap(uint64_t position) const { return (position + capacity_ - 1) / capacity_ * capacity_; }

  std::byte *bytes_ = nullptr;
  uint64_t capacity_ = 0;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  uint64_t peak_ = 0;
};

}  // namespace simpler::graph
