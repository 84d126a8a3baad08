// Carriers: the OS threads that lend their time to the simulated processors of a chip. They run what is ready, poll for a short time when
// nothing is, and park. An idle pool does nothing at all: there is no timer.
//
// Who is awake is kept in one word of two counts, `searching` and `parked` (the rest runs tasks):
//
//   searching ──found work──► running ──ran out──► searching ──polled long enough──► parked ──woken──► searching
//
//   - Who makes work visible calls `notify`. It wakes a carrier only if none is searching: a searcher will find the work.
//   - The last searcher that finds work looks whether there is more, and if so wakes another before it starts. So one wake per batch is
//     paid by the one that publishes, and the pool gets as large as there is work for, and no larger.
//   - No wake-up is lost: a publisher makes work visible (seq_cst) and then loads the word (seq_cst); a carrier changes the word (seq_cst)
//     and then looks for work once more. In the single total order of these, either the carrier sees the work or the publisher sees
//     that nobody searches. The same holds for the last searcher that leaves.
//
// A carrier that waits inside a kernel does not work. While it is absent another takes its place, on a thread of the reserve, so that what
// it waits for can run; when it is back, the pool gets smaller again as soon as some carrier has nothing to do.
//
// Threads: `notify` from any; start and stop from the owner. Parking and waking are under one lock, since either costs microseconds
// anyway. Carriers are workers 1 to count(), those that stand in for them follow; worker 0 is the orchestrator thread, which helps without
// being counted here.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/wait.h"
#include "chip/thread_reserve.h"

namespace simpler::chip {

struct CarrierWork {
  // Takes work and runs it, and what it leads to, until nothing is left; false when nothing was there. Must not throw. Calls `found`
  // once, between taking the first piece and running it.
  std::function<bool(uint32_t worker, const std::function<void()> &found)> run_some;
  // Whether run_some would find something. Reads with seq_cst what publishers write.
  std::function<bool()> has_work;
};

class CarrierPool {
 public:
  // `count` carriers, at most `most` with those that stand in.
  CarrierPool(uint32_t count, uint32_t most, CarrierWork work, ThreadReserve &reserve);
  // stop()
  ~CarrierPool();
  CarrierPool(const CarrierPool &) = delete;
  CarrierPool &operator=(const CarrierPool &) = delete;

  // Starts the threads, named "simpler-car<N>". Throws SYSTEM_ERROR when the system refuses one.
  void start();

  uint32_t count() const { return count_; }

  // There is work now that was not there before; it must have been published by a seq_cst operation.
  void notify() {
    const uint64_t word = word_.load(std::memory_order_seq_cst);
    if (searching(word) == 0 && parked(word) != 0) wake_one();
  }

  // The calling carrier waits inside a kernel as long as this lives. Null: it is no carrier.
  class Absence {
   public:
    explicit Absence(CarrierPool *pool) : pool_(pool) {
      if (pool_ != nullptr) pool_->leave();
    }
    ~Absence() {
      if (pool_ != nullptr) pool_->come_back();
    }
    Absence(const Absence &) = delete;
    Absence &operator=(const Absence &) = delete;

   private:
    CarrierPool *const pool_;
  };

  // Ends and joins the threads once the work at hand is done. Work that nobody took yet stays where it is. Idempotent.
  void stop();

  // How often carriers parked, and were woken; for tests and statistics.
  uint64_t parks() const;
  uint64_t wakes() const;

 private:
  struct alignas(64) Carrier {
    Doorbell bell;
    std::atomic<bool> woken{false};  // written under mutex_ (true: by the waker); read by the carrier in its wait
    std::atomic<uint64_t> parks{0};  // written by the carrier
    PollBudget search_budget;        // the carrier's own
    PollBudget park_budget;          // the carrier's own
    std::thread thread;
  };
  static constexpr uint64_t kSearching = 1;
  static constexpr uint64_t kParked = uint64_t{1} << 32;
  static uint32_t searching(uint64_t word) { return static_cast<uint32_t>(word); }
  static uint32_t parked(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

  void run(uint32_t index);
  void leave();
  void come_back();
  bool end_if_surplus(uint32_t index);
  void leave_search();
  void park(uint32_t index);
  void wake_one();

  // How long one that stands in stays parked before it ends.
  static constexpr uint64_t kStandInIdleNs = 1'000'000'000;

  const uint32_t count_;
  const CarrierWork work_;
  ThreadReserve &reserve_;
  // The two counts. Every change is a seq_cst read-modify-write; publishers load it with seq_cst (see above).
  alignas(64) std::atomic<uint64_t> word_{0};
  // Written once, by stop(); carriers look at it when they have nothing to do.
  alignas(64) std::atomic<bool> stopping_{false};
  std::mutex
      mutex_;  // guards the members up to carriers_, and the change from parked to searching; nothing is locked under it
  uint32_t absent_ = 0;                   // carriers that wait inside a kernel
  uint32_t standing_in_ = 0;              // carriers beyond count_ that run
  std::vector<uint32_t> unused_;          // indices beyond count_ that nobody has
  std::vector<uint32_t> parked_workers_;  // last in, first out: the warmest thread is woken
  // carriers_[i] is worker i + 1. Never changes in size after the start; those beyond count_ are made when first needed.
  std::vector<std::unique_ptr<Carrier>> carriers_;
  std::atomic<uint64_t> wakes_{0};
};

}  // namespace simpler::chip
