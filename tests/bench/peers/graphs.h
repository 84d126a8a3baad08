// The four task graphs that every runtime in this folder is timed on, and the timing loop.
//
//   independent  100,000 tasks, each writing a datum of its own
//   chain        100,000 tasks, each updating one datum
//   wavefront    300 x 300 tasks, each reading its upper and left neighbour's datum and writing its own
//   fan          1,000 x (one writer of a datum, then 100 readers of it)
//
// A program calls `time_graph(name, tasks, build_and_run)` for each; a line "name ns_per_task" is printed, the median over
// the rounds. The bodies are empty; `count_task` makes sure that every one of them ran.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

namespace peers {

inline constexpr long kTasks = 100'000;
inline constexpr long kSide = 300;
inline constexpr long kFans = 1'000;
inline constexpr long kFanWidth = 100;

inline uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

// One counter per thread: the check costs a plain increment and no shared line.
struct alignas(64) Slot {
  std::atomic<long> count{0};
};
inline Slot slots[256];
inline std::atomic<int> next_slot{0};
inline void count_task() {
  thread_local Slot &slot = slots[next_slot.fetch_add(1) % 256];
  slot.count.store(slot.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}
inline long tasks_counted() {
  long total = 0;
  for (const Slot &slot : slots) total += slot.count.load();
  return total;
}

template <class BuildAndRun>
void time_graph(const char *name, long tasks, int rounds, BuildAndRun build_and_run) {
  std::vector<double> times;
  for (int round = 0; round < rounds + 1; round++) {
    const long before = tasks_counted();
    const uint64_t start = now_ns();
    build_and_run();
    const uint64_t end = now_ns();
    if (tasks_counted() - before != tasks) {
      std::fprintf(stderr, "%s: %ld tasks ran, %ld expected\n", name, tasks_counted() - before, tasks);
      std::exit(1);
    }
    if (round != 0) times.push_back(static_cast<double>(end - start) / static_cast<double>(tasks));  // round 0 warms up
  }
  std::sort(times.begin(), times.end());
  std::printf("%s %.1f\n", name, times[times.size() / 2]);
  std::fflush(stdout);
}

// usage: PROGRAM [threads [rounds]]
struct Arguments {
  int threads = 2;
  int rounds = 7;
  Arguments(int argc, char **argv) {
    if (argc > 1) threads = std::max(1, std::atoi(argv[1]));
    if (argc > 2) rounds = std::max(1, std::atoi(argv[2]));
  }
};

}  // namespace peers
