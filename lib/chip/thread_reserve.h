// Threads for what must not wait for a carrier: the members of a cohort, and carriers that stand in for one that waits inside a kernel.
//
// A thread is leased first and given its job afterwards, so that a cohort either gets all its threads or none. Threads are made when there
// is no idle one, and end when they have been idle for a second: a chip that runs no such tasks has none.
//
// Threads: any may acquire; a lease belongs to who acquired it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/wait.h"

namespace simpler::chip {

class ThreadReserve {
  struct Thread;

 public:
  ThreadReserve();
  ~ThreadReserve();
  ThreadReserve(const ThreadReserve &) = delete;
  ThreadReserve &operator=(const ThreadReserve &) = delete;

  // A thread that waits for its job. Given back unused when destroyed before start().
  class Lease {
   public:
    Lease(ThreadReserve &reserve, Thread &thread) : reserve_(&reserve), thread_(&thread) {}
    Lease(Lease &&other) noexcept : reserve_(other.reserve_), thread_(std::exchange(other.thread_, nullptr)) {}
    Lease &operator=(Lease &&) = delete;
    ~Lease();
    // Runs `job`, which must not throw, on the thread, which is then free for others.
    void start(std::function<void()> job);

   private:
    ThreadReserve *reserve_;
    Thread *thread_;
  };
  // `count` threads. Throws SYSTEM_ERROR when the system refuses one; then none is leased.
  std::vector<Lease> acquire(size_t count);

  // Waits for the jobs at hand and ends all threads; nothing may be acquired any more. Idempotent.
  void stop();

  // Threads that exist now; for tests.
  size_t size() const;

 private:
  static constexpr uint64_t kIdleNs = 1'000'000'000;

  Thread &take_or_make();
  void run(Thread &self);
  void give_back(Thread &thread);

  mutable std::mutex mutex_;  // guards what follows; nothing is locked under it
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Thread *> idle_;                  // last in, first out
  std::vector<std::unique_ptr<Thread>> ended_;  // to be joined
  std::atomic<bool> stopping_{false};           // seq_cst: a condition of waits
};

}  // namespace simpler::chip
