// The tasks that are ready to run, oldest first: one ring per worker (ready_ring.h). Whoever makes tasks ready pushes to its own ring,
// whoever looks for work pops from all.
//
// Workers: 0 is the orchestrator thread, the next `rings` - 1 are carriers; those after them have no ring and only pop. `add`, `publish` and `pop` are called by the worker named.
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
  ReadyQueue(uint32_t rings, uint32_t workers, uint64_t capacity) : seen_(workers) {
    for (uint32_t i = 0; i < rings; i++) rings_.push_back(std::make_unique<ReadyRing>(capacity));
    for (Seen &seen : seen_) seen.tails.resize(rings);
  }

  void add(uint32_t worker, graph::TaskSlot &task, uint32_t ordinal) { rings_[worker]->add(pack(task, ordinal)); }
  void publish(uint32_t worker) { rings_[worker]->publish(); }

  // The oldest task of the worker's own ring and the orchestrator's; if both are empty, of the next ring that is not. Null if none.
  graph::TaskSlot *pop(uint32_t worker);
  // Any thread; seq_cst, pairs with publish.
  bool empty() const {
    for (const std::unique_ptr<ReadyRing> &ring : rings_)
      if (!ring->empty()) return false;
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

  // What one worker knows of each ring; its own.
  struct alignas(64) Seen {
    std::vector<ReadyRing::TailSeen> tails;
  };
  std::vector<std::unique_ptr<ReadyRing>> rings_;
  std::vector<Seen> seen_;
};

inline graph::TaskSlot *ReadyQueue::pop(uint32_t worker) {
  std::vector<ReadyRing::TailSeen> &seen = seen_[worker].tails;
  const auto count = static_cast<uint32_t>(rings_.size());
  uint64_t own = 0;
  uint64_t submitted = 0;
  const bool has_own = worker < count && rings_[worker]->peek(own, seen[worker]);
  const bool has_submitted = worker != 0 && rings_[0]->peek(submitted, seen[0]);
  uint64_t entry = 0;
  if (has_own || has_submitted) {
    const uint32_t from = has_own && (!has_submitted || is_older(own, submitted)) ? worker : 0;
    if (rings_[from]->pop(entry, seen[from])) return unpack(entry);
  }
  const uint32_t start = worker < count ? worker : 0;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t from = start + i < count ? start + i : start + i - count;
    if (rings_[from]->pop(entry, seen[from])) return unpack(entry);
  }
  return nullptr;
}

}  // namespace simpler::chip
