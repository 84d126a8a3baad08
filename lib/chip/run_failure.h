// The first failure of a run: the cause that the run reports; later ones are counted by the graph engine.
//
// Threads: any worker records; the orchestrator thread resets between runs and reads at the end, when all tasks have ended.
#pragma once

#include <atomic>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace simpler::chip {

class RunFailure {
 public:
  void reset() {
    const std::lock_guard lock(mutex_);
    error_ = {};
    has_failed_.store(false, std::memory_order_release);
  }
  // Keeps `error` if it is the first.
  void record(ErrorInfo error) {
    const std::lock_guard lock(mutex_);
    if (has_failed_.load(std::memory_order_relaxed)) return;
    error_ = std::move(error);
    has_failed_.store(true, std::memory_order_release);
  }
  bool has_failed() const { return has_failed_.load(std::memory_order_acquire); }
  ErrorInfo error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  mutable std::mutex mutex_;  // guards error_; nothing is locked under it
  ErrorInfo error_;
  std::atomic<bool> has_failed_{false};  // release: error_ is there
};

}  // namespace simpler::chip
