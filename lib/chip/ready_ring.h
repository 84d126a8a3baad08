// A growing FIFO of 64-bit entries with one producer and any number of consumers.
//
// Every thread that makes tasks ready owns one and pushes only there; every carrier pops from all of them. The hot path has no lock
// and no line that producer and consumers both write: the producer writes `tail_` and cells, consumers write `head_`.
//
// Why it is right
//  - A cell is written before `tail_` is published (release); a consumer reads `tail_` (acquire) before the cell.
//  - A consumer reads cell `h` first and claims it afterwards by moving `head_` from h to h + 1. The producer reuses the cell of h
//    only when head_ > h; then the consumer's exchange fails and what it read is thrown away. Positions are 64-bit counts that
//    never repeat, so there is no ABA. Cells are atomics, so the read that loses is not a data race.
//  - Growing: the producer copies the live cells into a twice as large array and publishes it before the next `tail_`. A consumer
//    loads the array after `tail_`, so the array that it sees holds every position below that tail; an older array keeps its
//    values for the positions it held, as nobody writes it any more. Old arrays are freed with the ring (their sizes sum to less
//    than the newest's).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace simpler::chip {

class ReadyRing {
 public:
  // `capacity` is a power of two and only where it starts.
  explicit ReadyRing(uint64_t capacity) : own_(make(capacity)) { array_.store(own_, std::memory_order_release); }

  ReadyRing(const ReadyRing &) = delete;
  ReadyRing &operator=(const ReadyRing &) = delete;

  // Producer. Adds an entry without publishing it. Throws bad_alloc when it must grow and cannot; then nothing was added.
  void add(uint64_t entry) {
    if (unpublished_ - head_seen_ == own_->mask + 1) {
      head_seen_ = head_.load(std::memory_order_acquire);  // acquire: the consumer is done with the cell before we write it
      if (unpublished_ - head_seen_ == own_->mask + 1) grow();
    }
    own_->cells[unpublished_ & own_->mask].store(entry, std::memory_order_relaxed);
    unpublished_++;
  }
  // Producer. Publishes what was added. seq_cst, as who publishes looks afterwards whether somebody is to be woken
  // (carrier_pool.h); release would do for the ring itself.
  void publish() { tail_.store(unpublished_, std::memory_order_seq_cst); }

  // A consumer's own memory of `tail_`, so that it looks at the producer's line only when it has used up what it knew of.
  using TailSeen = uint64_t;

  // Consumer. The oldest entry without taking it; false when empty.
  bool peek(uint64_t &entry, TailSeen &seen) const {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (!is_below_tail(head, seen)) return false;
    entry = read(head);
    return true;
  }
  // Consumer. Takes the oldest entry; false when empty.
  bool pop(uint64_t &entry, TailSeen &seen) {
    uint64_t head = head_.load(std::memory_order_relaxed);
    for (;;) {
      if (!is_below_tail(head, seen)) return false;
      entry = read(head);
      // release: our read of the cell comes before the producer's reuse of it
      if (head_.compare_exchange_weak(head, head + 1, std::memory_order_acq_rel, std::memory_order_relaxed)) return true;
    }
  }
  // Any thread. seq_cst: pairs with publish, see there.
  bool empty() const { return head_.load(std::memory_order_relaxed) >= tail_.load(std::memory_order_seq_cst); }

 private:
  struct Array {
    uint64_t mask;
    std::unique_ptr<std::atomic<uint64_t>[]> cells;
  };

  bool is_below_tail(uint64_t head, TailSeen &seen) const {
    if (head < seen) return true;
    seen = tail_.load(std::memory_order_acquire);
    return head < seen;
  }
  uint64_t read(uint64_t position) const {
    const Array *array = array_.load(std::memory_order_acquire);
    return array->cells[position & array->mask].load(std::memory_order_relaxed);
  }

  Array *make(uint64_t capacity) {
    auto array = std::make_unique<Array>(Array{capacity - 1, std::make_unique<std::atomic<uint64_t>[]>(capacity)});
    arrays_.push_back(std::move(array));
    return arrays_.back().get();
  }
  void grow() {
    Array *larger = make((own_->mask + 1) * 2);
    for (uint64_t i = head_seen_; i != unpublished_; i++)
      larger->cells[i & larger->mask].store(own_->cells[i & own_->mask].load(std::memory_order_relaxed),
                                            std::memory_order_relaxed);
    own_ = larger;
    array_.store(larger, std::memory_order_release);  // before the tail that needs it
  }

  // ---- the producer's
  alignas(64) std::vector<std::unique_ptr<Array>> arrays_;
  Array *own_;                // the newest
  uint64_t unpublished_ = 0;  // tail with what was added since the last publish
  uint64_t head_seen_ = 0;    // a past value of head_
  // ---- written by the producer, read by consumers
  alignas(64) std::atomic<uint64_t> tail_{0};        // publishes cells and array; consumers acquire
  alignas(64) std::atomic<Array *> array_{nullptr};  // release; published before the tail that needs it; changes rarely
  // ---- written by consumers
  alignas(64) std::atomic<uint64_t> head_{0};  // claims entries
};

}  // namespace simpler::chip
