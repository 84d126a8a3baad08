// A cohort: kernels that run together, each on a core and a thread of its own, and may wait for each other. All blocks of a task with
// SIMPLER_TASK_SYNC_START are one; so are the parts of one block of another MIX task.
//
// Threads: made by the scheduler; each member calls barrier, push, pop and leave on its own thread, with its number. Waits park on one
// doorbell; they end when the run is over or the peer has left.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/wait.h"
#include "chip/task_payload.h"
#include "graph/task_slot.h"

namespace simpler::chip {

class Cohort {
 public:
  // Who sits where. Ordered by block, then by position.
  struct Seat {
    uint32_t core;
    uint32_t block;
    uint32_t position;  // SIMPLER_POSITION_..., says which kernel of the task
  };
  enum class Wait {
    kDone,
    kOver,      // the run has failed or is cancelled
    kPeerLeft,  // what is waited for can never come
  };
  // Whether the run is over; called often.
  using IsOver = std::function<bool()>;

  Cohort(graph::TaskSlot &task, std::vector<Seat> seats);

  graph::TaskSlot &task() const { return *task_; }
  uint32_t size() const { return static_cast<uint32_t>(seats_.size()); }
  const Seat &seat(uint32_t member) const { return seats_[member]; }

  Wait barrier(const IsOver &is_over);
  // To and from the part at `position` of the member's block, which exists.
  Wait push(uint32_t member, uint32_t position, uint64_t word, const IsOver &is_over);
  Wait pop(uint32_t member, uint32_t position, uint64_t *word, const IsOver &is_over);
  // The member's kernel has returned.
  void leave(uint32_t member);

 private:
  // Words from one part of a block to another. One producer, one consumer.
  struct Fifo {
    // Words ever popped and pushed. seq_cst: conditions of waits (wait.h); they publish the words, and that they were read.
    alignas(64) std::atomic<uint64_t> head{0};
    alignas(64) std::atomic<uint64_t> tail{0};
    uint64_t words[SIMPLER_FIFO_WORDS];
  };
  uint32_t peer_of(uint32_t member, uint32_t position) const;
  Fifo &fifo(uint32_t member, uint32_t from, uint32_t to) {
    return fifos_[((seats_[member].block - seats_.front().block) * 3 + from) * 3 + to];
  }
  bool has_left(uint32_t member) const { return left_[member].load(std::memory_order_seq_cst); }
  template <class Condition>
  void wait(Condition condition);

  graph::TaskSlot *const task_;
  const std::vector<Seat> seats_;
  const uint32_t shape_;
  Doorbell bell_;  // of all waits
  // Barrier: who has arrived in this round (acq_rel: hands on what members wrote before), and rounds completed (seq_cst: condition of waits).
  std::atomic<uint32_t> arrived_{0};
  std::atomic<uint64_t> round_{0};
  std::atomic<uint32_t> left_count_{0};        // seq_cst, as round_
  std::unique_ptr<std::atomic<bool>[]> left_;  // seq_cst, as round_
  std::unique_ptr<Fifo[]> fifos_;              // of MIX tasks: block * 9 + from * 3 + to
};

}  // namespace simpler::chip
