// Seeded mode: which ready task runs next, on which core, when its end is made known, and when the submitter lets tasks run at all, drawn
// from a generator. The same graph with the same seed is scheduled the same way each time; other seeds try other interleavings.
//
// Owned by the scheduler, used by the orchestrator thread alone. Only what this decides is reproducible: the order in which members of one
// cohort, which have threads of their own, pass each other is not.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "graph/task_slot.h"

namespace simpler::chip {

class SeededOrder {
 public:
  struct Call {
    graph::TaskSlot *task;
    uint32_t block;
  };
  struct Ended {
    graph::TaskSlot *task;
    graph::Outcome outcome;
  };

  explicit SeededOrder(uint64_t seed) : random_(seed) {}

  // One of `count` possibilities.
  uint64_t choose(uint64_t count) { return random_() % count; }

  void add(const Call &call) { ready_.push_back(call); }
  void add(const Ended &ended) { ended_.push_back(ended); }
  bool has_calls() const { return !ready_.empty(); }
  bool has_ended() const { return !ended_.empty(); }
  // Whether an end is made known before the next call.
  bool prefers_end() { return has_ended() && (!has_calls() || choose(3) == 0); }
  Call take_call() { return take(ready_); }
  Ended take_ended() { return take(ended_); }

 private:
  template <class T>
  T take(std::vector<T> &from) {
    const auto at = static_cast<size_t>(choose(from.size()));
    const T taken = from[at];
    from[at] = from.back();
    from.pop_back();
    return taken;
  }

  std::mt19937_64 random_;
  std::vector<Call> ready_;   // kernel calls that could be made now
  std::vector<Ended> ended_;  // tasks that have run and of whose end nobody knows yet
};

}  // namespace simpler::chip
