#include "base/wait.h"

#include <climits>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace simpler {

void yield_cpu() { sched_yield(); }

// The futex operations are the process-shared ones, as a doorbell may lie in memory that two processes map.
void Doorbell::wake_all() {
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&epoch_), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Doorbell::park(uint32_t epoch, uint64_t timeout_ns) {
  timespec timeout;
  timespec *limit = nullptr;
  if (timeout_ns != kForever) {
    timeout.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000u);
    timeout.tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000u);
    limit = &timeout;
  }
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&epoch_), FUTEX_WAIT, epoch, limit, nullptr, 0);
}

}  // namespace simpler
