#include "chip/thread_reserve.h"

#include <algorithm>
#include <pthread.h>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace simpler::chip {

struct ThreadReserve::Thread {
  Doorbell bell;
  // Written by who holds the lease (seq_cst, as ring() asks), cleared by the thread: it has a job.
  std::atomic<bool> has_job{false};
  std::function<void()> job;  // published by has_job
  PollBudget budget;          // the thread's own
  std::thread thread;
};

ThreadReserve::ThreadReserve() = default;

ThreadReserve::~ThreadReserve() { stop(); }

ThreadReserve::Lease::~Lease() {
  if (thread_ != nullptr) reserve_->give_back(*thread_);
}

void ThreadReserve::Lease::start(std::function<void()> job) {
  Thread &thread = *std::exchange(thread_, nullptr);
  thread.job = std::move(job);
  thread.has_job.store(true, std::memory_order_seq_cst);
  thread.bell.ring();
}

ThreadReserve::Thread &ThreadReserve::take_or_make() {
  std::vector<std::unique_ptr<Thread>> ended;
  const std::lock_guard lock(mutex_);
  ended.swap(ended_);
  for (const std::unique_ptr<Thread> &thread : ended) thread->thread.join();  // it has left mutex_ and is about to return
  if (!idle_.empty()) {
    Thread &thread = *idle_.back();
    idle_.pop_back();
    return thread;
  }
  threads_.reserve(threads_.size() + 1);
  idle_.reserve(threads_.size() + 1);
  ended_.reserve(threads_.size() + 1);
  auto thread = std::make_unique<Thread>();
  try {
    thread->thread = std::thread([this, &self = *thread] { run(self); });
  } catch (const std::system_error &error) {
    throw_system_error(error.code().value(), "starting a thread for a kernel");
  }
  pthread_setname_np(thread->thread.native_handle(), "simpler-core");
  threads_.push_back(std::move(thread));
  return *threads_.back();
}

std::vector<ThreadReserve::Lease> ThreadReserve::acquire(size_t count) {
  std::vector<Lease> leases;
  leases.reserve(count);
  while (leases.size() < count) leases.emplace_back(*this, take_or_make());
  return leases;
}

void ThreadReserve::give_back(Thread &thread) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(&thread);  // room was reserved when the thread was made
}

void ThreadReserve::run(Thread &self) {
  const auto has_news = [&] {
    return self.has_job.load(std::memory_order_seq_cst) || stopping_.load(std::memory_order_seq_cst);
  };
  for (;;) {
    const bool is_timely = self.bell.wait(now_ns() + kIdleNs, self.budget, has_news);
    if (self.has_job.load(std::memory_order_seq_cst)) {
      self.job();
      self.job = nullptr;
      self.has_job.store(false, std::memory_order_relaxed);
      give_back(self);
      continue;
    }
    const std::lock_guard lock(mutex_);
    const auto place = std::find(idle_.begin(), idle_.end(), &self);
    if (place == idle_.end()) {
      // Leased: its job is on the way; or, once all jobs are over, this is the end.
      if (!is_timely) continue;
      if (self.has_job.load(std::memory_order_seq_cst)) continue;
      return;
    }
    idle_.erase(place);
    if (stopping_.load(std::memory_order_seq_cst)) return;
    const auto own =
        std::find_if(threads_.begin(), threads_.end(), [&](const auto &thread) { return thread.get() == &self; });
    ended_.push_back(std::move(*own));
    threads_.erase(own);
    return;
  }
}

void ThreadReserve::stop() {
  std::vector<std::unique_ptr<Thread>> threads;
  {
    const std::lock_guard lock(mutex_);
    stopping_.store(true, std::memory_order_seq_cst);
    for (const std::unique_ptr<Thread> &thread : threads_) thread->bell.ring();
    threads.swap(threads_);
    std::move(ended_.begin(), ended_.end(), std::back_inserter(threads));
    ended_.clear();
  }
  for (const std::unique_ptr<Thread> &thread : threads) thread->thread.join();
}

size_t ThreadReserve::size() const {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

}  // namespace simpler::chip
