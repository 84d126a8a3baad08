// The one clock of the library: CLOCK_MONOTONIC in nanoseconds, the same in the host and in all chips.
#pragma once

#include <cstdint>
#include <ctime>

namespace simpler {

inline uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

inline constexpr uint64_t kForever = UINT64_MAX;

// Deadline `timeout_ns` from now; kForever stays kForever, and sums saturate.
inline uint64_t deadline_after(uint64_t timeout_ns) {
  const uint64_t now = now_ns();
  return timeout_ns >= kForever - now ? kForever : now + timeout_ns;
}

}  // namespace simpler
