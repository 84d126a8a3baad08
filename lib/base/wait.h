// The one way in which anything waits: poll with sched_yield for a short, adaptive time, then park on a futex.
//
// A `Doorbell` is a place where threads (of one process or of several, when it lies in shared memory) wait for a condition
// that others make true. The waker pays for a system call only if somebody announced that they sleep.
//
//   waiter                                    waker
//   bell.wait(deadline, [&]{ return ready; })   ready = true (seq_cst or RMW); bell.ring();
//
// Protocol (no wake-up can be lost):
//   sleeper: e = epoch; sleepers += 1 (seq_cst); check the condition again; futex_wait(epoch, e); sleepers -= 1
//   waker:   makes the condition true; if (sleepers (seq_cst) > 0) { epoch += 1; futex_wake(all) }
// Either the sleeper's second check comes after the waker's store in the single total order of seq_cst operations and sees
// it, or the waker's load of `sleepers` comes after the sleeper's increment and wakes it; a wake between check and
// futex_wait changes `epoch`, so the futex does not sleep. The waker's store to the condition must itself be seq_cst, a
// read-modify-write, or be followed by one before ring().
//
// Every wait has an end: the caller's condition must include "the peer is gone" and "this is over", and whoever makes those
// true rings the bell. A sleeper whose waker can die without ringing (another process) passes `liveness_ns`.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace simpler {

// Counts of what waits did; for tests, statistics and the idle benchmark.
struct WaitCounters {
  uint64_t yields = 0;
  uint64_t parks = 0;
};

// How long a waiter polls before it parks. Adapts to the gaps that this waiter sees: short gaps earn it more polling (up to
// kPollMaxNs), gaps that outlast the budget shrink it (down to kPollMinNs). Owned by one waiting thread.
class PollBudget {
 public:
  static constexpr uint64_t kPollMinNs = 5'000;
  static constexpr uint64_t kPollStartNs = 30'000;
  static constexpr uint64_t kPollMaxNs = 50'000;

  uint64_t budget_ns() const { return budget_ns_; }
  void satisfied_by_polling() { budget_ns_ = budget_ns_ * 2 < kPollMaxNs ? budget_ns_ * 2 : kPollMaxNs; }
  void had_to_park() { budget_ns_ = budget_ns_ / 2 > kPollMinNs ? budget_ns_ / 2 : kPollMinNs; }

 private:
  uint64_t budget_ns_ = kPollStartNs;
};

// Yields this thread's CPU once; the polling part of every wait.
void yield_cpu();

class Doorbell {
 public:
  Doorbell() = default;
  Doorbell(const Doorbell &) = delete;
  Doorbell &operator=(const Doorbell &) = delete;

  // Wakes everyone that sleeps here, if anyone does. Any thread, any process that maps it.
  void ring() {
    // seq_cst: pairs with the increment in `wait`, see the protocol above.
    if (sleepers_.load(std::memory_order_seq_cst) > 0) wake_all();
  }
  // Wakes everyone, also while somebody has taken over (below). For ends: "this is over".
  void ring_always() { wake_all(); }

  // Somebody who polls the condition anyway takes the duty to notice over from one sleeper, which need not be woken meanwhile:
  // it counts as no sleeper between the two calls. After give_back the condition must be looked at once more; from then on
  // the sleeper is woken again.
  void take_over() { sleepers_.fetch_sub(1, std::memory_order_seq_cst); }
  void give_back() { sleepers_.fetch_add(1, std::memory_order_seq_cst); }

  // Waits until ready() is true (returns true) or the deadline passes (returns false; ready() was false at the end).
  // ready() is called often, from this thread only, and must be cheap.
  template <class Ready>
  bool wait(uint64_t deadline_ns, PollBudget &budget, Ready &&ready, uint64_t liveness_ns = kForever) {
    if (ready()) return true;
    uint64_t now = now_ns();
    for (const uint64_t poll_end = now + budget.budget_ns(); now < poll_end; now = now_ns()) {
      yield_cpu();
      if (ready()) {
        budget.satisfied_by_polling();
        return true;
      }
    }
    budget.had_to_park();
    while (now < deadline_ns) {
      const uint32_t epoch = epoch_.load(std::memory_order_acquire);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);  // announces the sleep; pairs with ring()
      const bool is_ready = ready();
      if (!is_ready) {
        const uint64_t left = deadline_ns - now;
        park(epoch, deadline_ns == kForever ? liveness_ns : (left < liveness_ns ? left : liveness_ns));
      }
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
      if (is_ready || ready()) return true;
      now = now_ns();
    }
    return ready();
  }

  template <class Ready>
  bool wait(uint64_t deadline_ns, Ready &&ready) {
    PollBudget budget;
    return wait(deadline_ns, budget, ready);
  }

 private:
  void wake_all();
  // Sleeps while epoch_ == epoch, at most timeout_ns (kForever: no limit). Returns also without cause.
  void park(uint32_t epoch, uint64_t timeout_ns);

  // Written by wakers; the futex word. Wraps harmlessly: a sleeper would have to miss 2^32 wakes in between.
  std::atomic<uint32_t> epoch_{0};
  // Number of threads that are about to sleep or sleep, less those that polling threads stand in for. Written by sleepers and
  // pollers, read by wakers. A process that dies asleep leaves it too high, which costs the other side needless wake-ups and
  // nothing else.
  std::atomic<int32_t> sleepers_{0};
};
static_assert(sizeof(Doorbell) == 8);

}  // namespace simpler
