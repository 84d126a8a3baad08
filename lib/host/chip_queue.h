// The runs of one chip: pushed into its link in order, finished as completions come back.
//
// Who takes completions from the ring ("pumps"): a waiting thread while it polls, so that a run costs no thread switch in the
// host; the queue's own pump thread otherwise. The hand-over, on the link's host_bell:
//
//   pump thread    sleeps on host_bell while the ring is empty: it counts as a sleeper, the chip wakes it
//   waiter comes   host_bell.take_over(): the sleeper no longer counts, the chip wakes nobody; the waiter pumps while it polls
//   waiter leaves  host_bell.give_back(), then pumps once more, under the lock: what came before give_back is found now; what
//                  comes after it wakes the pump thread
//
// Pumping is done under `pump_mutex_`; a waiter that polls only tries the lock, as whoever holds it pumps for all, but the last
// look when leaving takes it. Runs are finished (outputs copied, waiters woken) outside of all locks.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/shared_memory.h"
#include "control/link.h"
#include "host/run.h"

namespace simpler::host {

class ChipQueue : public std::enable_shared_from_this<ChipQueue> {
 public:
  struct Callbacks {
    // The run has ended with what run.error and run.counts say. Called exactly once per run, no lock held.
    std::function<void(Run &run)> finish;
    std::function<void(simpler_log_level level, std::string text)> log;
    // The chip broke the protocol of its ring: it must be ended.
    std::function<void(const ErrorInfo &error)> broken;
  };

  ChipQueue(uint32_t chip, std::shared_ptr<SharedMemory> link_memory, Callbacks callbacks);
  ~ChipQueue();  // stop() was called

  void start();  // starts the pump thread; throws SYSTEM_ERROR

  // Throws CHIP_LOST or CLOSED; the run is then not taken.
  void submit(const std::shared_ptr<Run> &run, std::vector<std::byte> record);
  // True when the run has ended, false when the deadline came first.
  bool wait(Run &run, uint64_t deadline_ns);
  // Runs that have not ended.
  size_t load() const;
  bool is_running(const Run &run) const;

  // The chip is gone: every run fails with `error` (its own callable and label filled in), later submits too.
  void lose(const ErrorInfo &error);
  // Refuses further runs, cancels what the chip has not started, and returns the run that it works on, if any.
  std::shared_ptr<Run> begin_close();
  // Cancels what is left.
  void cancel_all(const ErrorInfo &error);
  // Ends the pump thread. No completion is taken any more.
  void stop();

  bool is_lost() const;

 private:
  struct Pushed {
    std::shared_ptr<Run> run;
    std::vector<std::byte> record;
  };

  void pump_thread();
  void pump(bool wait_for_lock);
  struct Taken {
    std::vector<std::shared_ptr<Run>> ended;
    std::vector<control::LogRecord> logs;
    ErrorInfo broken;  // not OK: the chip broke the protocol
  };
  void take_records(Taken &taken);
  void push_pending();
  void fail_runs(const std::vector<std::shared_ptr<Run>> &runs, const ErrorInfo &error);
  std::vector<std::shared_ptr<Run>> take_all_runs();

  const uint32_t chip_;
  const std::shared_ptr<SharedMemory> link_memory_;
  control::Link link_;
  const Callbacks callbacks_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};

  // Guards the consuming end of to_host. mutex_ may be locked under it.
  std::mutex pump_mutex_;
  std::vector<std::byte> body_;  // under pump_mutex_
  bool broken_ = false;          // under pump_mutex_: nothing is taken from the ring any more

  // Guards the producing end of to_chip and everything below. Nothing is locked under it.
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<Run>> runs_;  // not ended
  std::deque<Pushed> pending_;                               // not in the ring yet, for want of room
  ErrorInfo refusal_;                                        // not OK: no further runs
  bool lost_ = false;
};

}  // namespace simpler::host
