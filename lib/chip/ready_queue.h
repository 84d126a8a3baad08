// The tasks that are ready to run, oldest first: one ring per worker (ready_ring.h). Whoever makes tasks ready pushes to its own ring,
// whoever looks for work pops from all.
//
// Workers: 0 is the orchestrator thread, the others are carriers. `add`, `publish` and `pop` are called by the worker named.
// A task's ordinal is packed beside its address, so that the older of two heads is found without touching the tasks. There is no
// cap: rings grow, and the window bounds what can be ready.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "chip/ready_ring.h"
#include "graph/task_slot.h"

namespace simpler::chip {

class ReadyQueue {
 public:
  ReadyQueue(uint32_t workers, uint64_t capacity) {
    for (uint32_t i = 0; i < workers; i++) workers_.push_back(std::make_unique<Worker>(workers, capacity));
  }

  void add(uint32_t worker, graph::TaskSlot &task, uint32_t ordinal) { workers_[worker]->ring.add(pack(task, ordinal)); }
  void publish(uint32_t worker) { workers_[worker]->ring.publish(); }

  // The oldest task of the worker's own ring and the orchestrator's; if both are empty, of the next ring that is not. Null if none.
  graph::TaskSlot *pop(uint32_t worker);
  // Any thread; seq_cst, pairs with publish.
  bool empty() const {
    for (const std::unique_ptr<Worker> &worker : workers_)
      if (!worker->ring.empty()) return false;
    return true;
  }

 private:
  // 42 bits of a 64-byte-aligned address of at most 48 bits, and 22 of the ordinal, which wraps: right as long as the tasks compared
  // are less than two million submissions apart, and only a matter of order beyond that.
  static constexpr unsigned kAddressBits = 42;
  static uint64_t pack(graph::TaskSlot &task, uint32_t ordinal) {
    return (reinterpret_cast<uintptr_t>(&task) >> 6) | (uint64_t{ordinal} << kAddressBits);
  }
  static graph::TaskSlot *unpack(uint64_t entry) {
    return reinterpret_cast<graph::TaskSlot *>((entry & ((uint64_t{1} << kAddressBits) - 1)) << 6);
  }
  static bool is_older(uint64_t a, uint64_t b) {
    return static_cast<int64_t>((a >> kAddressBits << kAddressBits) - (b >> kAddressBits << kAddressBits)) < 0;
  }

  struct Worker {
    Worker(uint32_t workers, uint64_t capacity) : ring(capacity), seen(workers) {}
    ReadyRing ring;
    std::vector<ReadyRing::TailSeen> seen;  // what this worker knows of each ring
  };
  std::vector<std::unique_ptr<Worker>> workers_;
};

inline graph::TaskSlot *ReadyQueue::pop(uint32_t worker) {
  Worker &self = *workers_[worker];
  uint64_t own = 0;
  uint64_t submitted = 0;
  const bool has_own = self.ring.peek(own, self.seen[worker]);
  const bool has_submitted = worker != 0 && workers_[0]->ring.peek(submitted, self.seen[0]);
  uint64_t entry = 0;
  if (has_own || has_submitted) {
    const uint32_t from = has_own && (!has_submitted || is_older(own, submitted)) ? worker : 0;
    if (workers_[from]->ring.pop(entry, self.seen[from])) return unpack(entry);
  }
  const auto count = static_cast<uint32_t>(workers_.size());
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t from = worker + i < count ? worker + i : worker + i - count;
    if (workers_[from]->ring.pop(entry, self.seen[from])) return unpack(entry);
  }
  return nullptr;
}

}  // namespace simpler::chip
