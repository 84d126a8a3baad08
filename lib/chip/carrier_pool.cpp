#include "chip/carrier_pool.h"

#include <algorithm>
#include <pthread.h>
#include <system_error>

#include "base/clock.h"
#include "base/error.h"

namespace simpler::chip {

CarrierPool::CarrierPool(uint32_t count, uint32_t most, CarrierWork work, ThreadReserve &reserve)
    : count_(count), work_(std::move(work)), reserve_(reserve), carriers_(std::max(count, most)) {
  parked_workers_.reserve(carriers_.size());
  unused_.reserve(carriers_.size());
  for (auto i = static_cast<uint32_t>(carriers_.size()); i > count; i--) unused_.push_back(i - 1);
  word_.store(count * kSearching, std::memory_order_seq_cst);  // each starts out looking for work
  for (uint32_t i = 0; i < count; i++) carriers_[i] = std::make_unique<Carrier>();
}

void CarrierPool::start() {
  try {
    for (uint32_t i = 0; i < count_; i++) {
      std::thread &thread = carriers_[i]->thread = std::thread([this, i] { run(i); });
      pthread_setname_np(thread.native_handle(), fmt::format("simpler-car{}", i).c_str());
    }
  } catch (const std::system_error &error) {
    stop();
    throw_system_error(error.code().value(), fmt::format("starting {} carrier threads", count_));
  }
}

CarrierPool::~CarrierPool() { stop(); }

void CarrierPool::stop() {
  stopping_.store(true, std::memory_order_seq_cst);
  {
    const std::lock_guard lock(mutex_);  // no carrier is made meanwhile
    for (const std::unique_ptr<Carrier> &carrier : carriers_)
      if (carrier != nullptr) carrier->bell.ring();
  }
  // Those that stand in run on threads of the reserve, which waits for them.
  for (uint32_t i = 0; i < count_; i++)
    if (carriers_[i] != nullptr && carriers_[i]->thread.joinable()) carriers_[i]->thread.join();
}

uint64_t CarrierPool::parks() const {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < count_; i++) sum += carriers_[i]->parks.load(std::memory_order_relaxed);
  return sum;
}

uint64_t CarrierPool::wakes() const { return wakes_.load(std::memory_order_relaxed); }

void CarrierPool::run(uint32_t index) {
  Carrier &carrier = *carriers_[index];
  const uint32_t worker = index + 1;
  const std::function<void()> found = [this] { leave_search(); };
  const auto may_have_work = [this] { return stopping_.load(std::memory_order_relaxed) || work_.has_work(); };
  while (!stopping_.load(std::memory_order_seq_cst)) {
    if (work_.run_some(worker, found)) {
      word_.fetch_add(kSearching, std::memory_order_seq_cst);  // and look once more before parking
      continue;
    }
    // A deadline in the past: poll as long as the budget says, do not sleep.
    if (carrier.bell.wait(0, carrier.search_budget, may_have_work)) continue;
    if (index >= count_ && end_if_surplus(index)) return;
    park(index);
  }
}

// ---- standing in ----------------------------------------------------------------------------------------------------

void CarrierPool::leave() {
  uint32_t index = 0;
  {
    const std::lock_guard lock(mutex_);
    absent_++;
    if (standing_in_ >= absent_ || unused_.empty() || stopping_.load(std::memory_order_seq_cst)) return;
    standing_in_++;
    index = unused_.back();
    unused_.pop_back();
    if (carriers_[index] == nullptr) carriers_[index] = std::make_unique<Carrier>();
    word_.fetch_add(kSearching, std::memory_order_seq_cst);  // it starts out looking for work
  }
  try {
    std::vector<ThreadReserve::Lease> lease = reserve_.acquire(1);
    lease.front().start([this, index] { run(index); });
  } catch (...) {  // the system has no thread for it: the others must do
    const std::lock_guard lock(mutex_);
    word_.fetch_sub(kSearching, std::memory_order_seq_cst);
    standing_in_--;
    unused_.push_back(index);
  }
}

void CarrierPool::come_back() {
  const std::lock_guard lock(mutex_);
  absent_--;
}

// Called while searching. What is published after this is for the others: they are as many as there should be.
bool CarrierPool::end_if_surplus(uint32_t index) {
  {
    const std::lock_guard lock(mutex_);
    if (standing_in_ <= absent_) return false;
    standing_in_--;
    unused_.push_back(index);
    word_.fetch_sub(kSearching, std::memory_order_seq_cst);
  }
  // Somebody may have relied on us to find what they published.
  if (work_.has_work()) wake_one();
  return true;
}

void CarrierPool::leave_search() {
  const uint64_t before = word_.fetch_sub(kSearching, std::memory_order_seq_cst);
  if (searching(before) == 1 && parked(before) != 0 && work_.has_work()) wake_one();
}

void CarrierPool::park(uint32_t index) {
  Carrier &carrier = *carriers_[index];
  {
    const std::lock_guard lock(mutex_);
    carrier.woken.store(false, std::memory_order_relaxed);
    parked_workers_.push_back(index);
    word_.fetch_add(kParked - kSearching, std::memory_order_seq_cst);
  }
  if (work_.has_work()) {  // published while we were on the way: nobody else may know
    const std::lock_guard lock(mutex_);
    if (carrier.woken.load(std::memory_order_relaxed)) return;  // a waker has counted us as searching
    parked_workers_.erase(std::find(parked_workers_.begin(), parked_workers_.end(), index));
    word_.fetch_sub(kParked - kSearching, std::memory_order_seq_cst);
    return;
  }
  carrier.parks.fetch_add(1, std::memory_order_relaxed);
  const uint64_t deadline = index < count_ ? kForever : now_ns() + kStandInIdleNs;
  const bool is_woken = carrier.bell.wait(deadline, carrier.park_budget, [&] {
    return carrier.woken.load(std::memory_order_acquire) || stopping_.load(std::memory_order_relaxed);
  });
  if (is_woken) return;
  const std::lock_guard lock(mutex_);  // idle for long: looks once more, and whether it is still needed
  if (carrier.woken.load(std::memory_order_relaxed)) return;
  parked_workers_.erase(std::find(parked_workers_.begin(), parked_workers_.end(), index));
  word_.fetch_sub(kParked - kSearching, std::memory_order_seq_cst);
}

void CarrierPool::wake_one() {
  uint32_t index = 0;
  {
    const std::lock_guard lock(mutex_);
    const uint64_t word = word_.load(std::memory_order_seq_cst);
    if (searching(word) != 0 || parked_workers_.empty()) return;
    index = parked_workers_.back();
    parked_workers_.pop_back();
    carriers_[index]->woken.store(true, std::memory_order_seq_cst);  // seq_cst: as ring() asks
    word_.fetch_sub(kParked - kSearching, std::memory_order_seq_cst);
  }
  wakes_.fetch_add(1, std::memory_order_relaxed);
  carriers_[index]->bell.ring();
}

}  // namespace simpler::chip
