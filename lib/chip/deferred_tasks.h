// Tasks whose kernels have returned and which complete when counter words reach given values (device.h, simpler_kernel_complete_when).
//
// Threads: any; one lock. `any` costs one load of a line that is written only by tasks that use this.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "graph/task_slot.h"

namespace simpler::chip {

class DeferredTasks {
 public:
  // One more condition for a task that is running. Throws bad_alloc.
  void add(graph::TaskId task, const uint64_t *word, uint64_t value);
  // Whether some task has conditions. relaxed is enough: who asks for a task has seen its kernels return.
  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }

  enum class Kept {
    kNo,  // it has no conditions, or they hold
    kYes,
    kFirst  // yes, and nobody watches: the caller must see to it
  };
  // The task's kernels have returned well.
  Kept keep(graph::TaskSlot &task);
  // The task ends without regard to its conditions.
  void drop(graph::TaskId task);
  // Takes the kept tasks whose conditions hold, or all.
  std::vector<graph::TaskSlot *> take_due(bool all);
  // Whether take_due would find one.
  bool is_due() const;
  // The watcher asks whether it can go: nothing is kept. The next keep() then says kFirst.
  bool end_watch();

 private:
  struct Condition {
    const uint64_t *word;
    uint64_t value;
  };
  struct Entry {
    graph::TaskSlot *kept = nullptr;  // null while its kernels run
    std::vector<Condition> conditions;
  };
  static bool holds(const Entry &entry);

  mutable std::mutex mutex_;  // guards what follows; nothing is locked under it
  std::unordered_map<graph::TaskId, Entry> entries_;
  size_t kept_ = 0;
  bool is_watched_ = false;
  std::atomic<size_t> count_{0};  // of entries_
};

}  // namespace simpler::chip
