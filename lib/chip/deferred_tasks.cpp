#include "chip/deferred_tasks.h"

#include <algorithm>

#include "base/signals.h"

namespace simpler::chip {

bool DeferredTasks::holds(const Entry &entry) {
  return std::all_of(entry.conditions.begin(), entry.conditions.end(),
                     [](const Condition &condition) { return Signals::load(condition.word) >= condition.value; });
}

void DeferredTasks::add(graph::TaskId task, const uint64_t *word, uint64_t value) {
  const std::lock_guard lock(mutex_);
  entries_[task].conditions.push_back({word, value});
  count_.store(entries_.size(), std::memory_order_relaxed);
}

DeferredTasks::Kept DeferredTasks::keep(graph::TaskSlot &task) {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(task.id);
  if (at == entries_.end()) return Kept::kNo;
  if (holds(at->second)) {
    entries_.erase(at);
    count_.store(entries_.size(), std::memory_order_relaxed);
    return Kept::kNo;
  }
  at->second.kept = &task;
  kept_++;
  if (is_watched_) return Kept::kYes;
  is_watched_ = true;
  return Kept::kFirst;
}

void DeferredTasks::drop(graph::TaskId task) {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(task);
  if (at == entries_.end()) return;
  if (at->second.kept != nullptr) kept_--;
  entries_.erase(at);
  count_.store(entries_.size(), std::memory_order_relaxed);
}

std::vector<graph::TaskSlot *> DeferredTasks::take_due(bool all) {
  const std::lock_guard lock(mutex_);
  std::vector<graph::TaskSlot *> due;
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (at->second.kept == nullptr || (!all && !holds(at->second))) {
      ++at;
      continue;
    }
    due.push_back(at->second.kept);
    kept_--;
    at = entries_.erase(at);
  }
  count_.store(entries_.size(), std::memory_order_relaxed);
  return due;
}

bool DeferredTasks::is_due() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const auto &entry) { return entry.second.kept != nullptr && holds(entry.second); });
}

bool DeferredTasks::end_watch() {
  const std::lock_guard lock(mutex_);
  if (kept_ != 0) return false;
  is_watched_ = false;
  return true;
}

}  // namespace simpler::chip
