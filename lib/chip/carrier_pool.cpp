#include "chip/carrier_pool.h"

#include <algorithm>
#include <pthread.h>
#include <system_error>

#include "base/error.h"

namespace simpler::chip {

CarrierPool::CarrierPool(uint32_t count, CarrierWork work) : work_(std::move(work)) {
  parked_workers_.reserve(count);
  carriers_.reserve(count);
  word_.store(count * kSearching, std::memory_order_seq_cst);  // each starts out looking for work
  for (uint32_t i = 0; i < count; i++) carriers_.push_back(std::make_unique<Carrier>());
  try {
    for (uint32_t i = 0; i < count; i++) {
      std::thread &thread = carriers_[i]->thread = std::thread([this, i] { run(i); });
      pthread_setname_np(thread.native_handle(), fmt::format("simpler-car{}", i).c_str());
    }
  } catch (const std::system_error &error) {
    stop();
    throw_system_error(error.code().value(), fmt::format("starting {} carrier threads", count));
  }
}

CarrierPool::~CarrierPool() { stop(); }

void CarrierPool::stop() {
  stopping_.store(true, std::memory_order_seq_cst);
  for (const std::unique_ptr<Carrier> &carrier : carriers_) carrier->bell.ring();
  for (const std::unique_ptr<Carrier> &carrier : carriers_)
    if (carrier->thread.joinable()) carrier->thread.join();
}

uint64_t CarrierPool::parks() const {
  uint64_t sum = 0;
  for (const std::unique_ptr<Carrier> &carrier : carriers_) sum += carrier->parks.load(std::memory_order_relaxed);
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
    park(index);
  }
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
  carrier.bell.wait(kForever, carrier.park_budget, [&] {
    return carrier.woken.load(std::memory_order_acquire) || stopping_.load(std::memory_order_relaxed);
  });
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
