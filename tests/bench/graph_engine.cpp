// How long the graph engine alone takes per task: no kernels, no chip, no process; one tensor argument per dependency.
//
//   usage: graph_engine [rounds]
//
// Prints medians in ns per task, submission and execution together, for the graphs of peers/graphs.h and for sizes of what
// the engine keeps. "inline": one thread, each task is completed when it becomes ready. "2 threads": the submitter hands ready
// tasks to one completer over a ring; the completer resolves the fan-out and goes on with what became ready.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <sched.h>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/wait.h"
#include "graph/engine.h"

using namespace simpler;
using namespace simpler::graph;

namespace {

constexpr uint64_t kTasks = 100'000;
constexpr uint64_t kSide = 300;
constexpr uint64_t kFans = 1'000;
constexpr uint64_t kFanWidth = 100;

// Addresses only; the engine never touches the memory behind a view.
simpler_tensor datum(uint64_t index) {
  const uint64_t shape = 16;
  simpler_tensor t = simpler_tensor_make(SIMPLER_DTYPE_FLOAT32, 1, &shape);
  t.allocation = reinterpret_cast<void *>(uint64_t{1} << 40);
  t.allocation_bytes = uint64_t{1} << 38;
  t.data = static_cast<char *>(t.allocation) + index * 64;
  return t;
}

// Ready tasks from the submitter to the completer: one writer, one reader.
class TaskRing {
 public:
  void push(TaskSlot *task) {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    while (head - tail_.load(std::memory_order_acquire) >= kSlots) yield_cpu();
    slots_[head % kSlots] = task;
    head_.store(head + 1, std::memory_order_seq_cst);  // the condition of a wait on bell_
    bell_.ring();
  }
  TaskSlot *pop() {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    auto ready = [&] { return head_.load(std::memory_order_seq_cst) != tail || over_.load(std::memory_order_seq_cst); };
    bell_.wait(kForever, budget_, ready);
    if (head_.load(std::memory_order_acquire) == tail) return nullptr;
    TaskSlot *task = slots_[tail % kSlots];
    tail_.store(tail + 1, std::memory_order_release);
    return task;
  }
  void end() {
    over_.store(true, std::memory_order_seq_cst);
    bell_.ring();
  }

 private:
  static constexpr uint64_t kSlots = 1024;
  alignas(64) std::atomic<uint64_t> head_{0};
  alignas(64) std::atomic<uint64_t> tail_{0};
  alignas(64) Doorbell bell_;
  std::atomic<bool> over_{false};
  PollBudget budget_;
  TaskSlot *slots_[kSlots];
};

class Bench {
 public:
  Bench(bool threaded, uint32_t window) {
    EngineOptions options;
    options.window = window;
    options.heap_memory = [this](uint32_t, uint64_t bytes) {
      heaps_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
      return heaps_.back().get();
    };
    engine_ = std::make_unique<Engine>(std::move(options));
    if (!threaded) return;
    ring_ = std::make_unique<TaskRing>();
    completer_ = std::thread([this] {
      while (TaskSlot *task = ring_->pop()) run(task);
    });
  }
  ~Bench() {
    if (!ring_) return;
    ring_->end();
    completer_.join();
  }

  Engine &engine() { return *engine_; }
  TaskSlot *open() { return engine_->open(kPayloadBytes, {}, nullptr); }
  void commit(TaskSlot *task) {
    if (!engine_->commit(*task)) return;
    task->next_ready = nullptr;
    if (ring_)
      ring_->push(task);
    else
      run(task);
  }
  void submit(const simpler_tensor &view, simpler_tag tag) {
    TaskSlot *task = open();
    engine_->access(*task, view, tag);
    commit(task);
  }

  // Median ns per task over the rounds.
  double time(uint64_t tasks, int rounds, const std::function<void(Bench &)> &build) {
    std::vector<double> times;
    for (int round = 0; round <= rounds; round++) {
      const uint64_t start = now_ns();
      engine_->begin_run({});
      engine_->scope_begin(ScopeMode::kAuto);
      build(*this);
      engine_->end_run();
      const uint64_t end = now_ns();
      if (round != 0) times.push_back(static_cast<double>(end - start) / static_cast<double>(tasks));
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

 private:
  static constexpr size_t kPayloadBytes = 64;
  void run(TaskSlot *task) {
    // Newest first: keeps no queue, and a task that was just released is still in the cache.
    while (task != nullptr) {
      TaskSlot *rest = task->next_ready;
      TaskSlot *ready = engine_->complete(*task, Outcome::kDone);
      if (ready == nullptr) {
        task = rest;
        continue;
      }
      TaskSlot *last = ready;
      while (last->next_ready != nullptr) last = last->next_ready;
      last->next_ready = rest;
      task = ready;
    }
  }

  std::vector<std::unique_ptr<std::byte[]>> heaps_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<TaskRing> ring_;
  std::thread completer_;
};

void independent(Bench &b) {
  for (uint64_t i = 0; i < kTasks; i++) b.submit(datum(i), SIMPLER_TAG_INOUT);
}
void chain(Bench &b) {
  for (uint64_t i = 0; i < kTasks; i++) b.submit(datum(0), SIMPLER_TAG_INOUT);
}
void wavefront(Bench &b) {
  for (uint64_t i = 0; i < kSide; i++) {
    for (uint64_t j = 0; j < kSide; j++) {
      TaskSlot *task = b.open();
      if (i > 0) b.engine().access(*task, datum((i - 1) * kSide + j), SIMPLER_TAG_INPUT);
      if (j > 0) b.engine().access(*task, datum(i * kSide + j - 1), SIMPLER_TAG_INPUT);
      b.engine().access(*task, datum(i * kSide + j), SIMPLER_TAG_INOUT);
      b.commit(task);
    }
  }
}
void fan(Bench &b) {
  for (uint64_t i = 0; i < kFans; i++) {
    b.submit(datum(0), SIMPLER_TAG_INOUT);
    for (uint64_t k = 0; k < kFanWidth; k++) b.submit(datum(0), SIMPLER_TAG_INPUT);
  }
}

// Round trip of two spinning threads: tells which of the machine's two placements the figures were taken in.
double round_trip_ns() {
  alignas(64) std::atomic<uint32_t> ping{0};
  alignas(64) std::atomic<uint32_t> pong{0};
  constexpr uint32_t kRounds = 200'000;
  std::thread other([&] {
    for (uint32_t i = 1; i <= kRounds; i++) {
      for (uint32_t spins = 0; ping.load(std::memory_order_acquire) != i; spins++)
        if (spins > 10'000) yield_cpu();
      pong.store(i, std::memory_order_release);
    }
  });
  const uint64_t start = now_ns();
  for (uint32_t i = 1; i <= kRounds; i++) {
    ping.store(i, std::memory_order_release);
    for (uint32_t spins = 0; pong.load(std::memory_order_acquire) != i; spins++)
      if (spins > 10'000) yield_cpu();
  }
  const uint64_t end = now_ns();
  other.join();
  return static_cast<double>(end - start) / kRounds;
}

void print(const char *name, double ns) {
  std::printf("%-56s %8.1f ns/task\n", name, ns);
  std::fflush(stdout);
}

void graphs(int rounds) {
  for (const bool threaded : {false, true}) {
    const std::string mode = threaded ? "2 threads" : "inline";
    Bench b(threaded, 4096);
    print((mode + ": independent").c_str(), b.time(kTasks, rounds, independent));
    print((mode + ": chain").c_str(), b.time(kTasks, rounds, chain));
    print((mode + ": wavefront 300 x 300").c_str(), b.time(kSide * kSide, rounds, wavefront));
    print((mode + ": 1,000 x (1 -> 100 -> 1)").c_str(), b.time(kFans * (kFanWidth + 1), rounds, fan));
  }
}

// Tasks that are all open at once before the first completes: what dependencies cost when every edge is attached.
void sizes(int rounds) {
  for (const uint64_t readers : {1u, 100u, 10'000u, 100'000u}) {
    Bench b(false, 1u << 18);
    const uint64_t sets = 200'000 / (readers + 1);
    print(("inline: sets of " + std::to_string(readers) + " readers, 1 writer").c_str(),
          b.time(sets * (readers + 1), rounds, [&](Bench &bench) {
            for (uint64_t s = 0; s < sets; s++) {
              for (uint64_t i = 0; i < readers; i++) bench.submit(datum(0), SIMPLER_TAG_INPUT);
              bench.submit(datum(0), SIMPLER_TAG_INOUT);
            }
          }));
  }
  for (const uint64_t regions : {1u, 1'000u, 100'000u, 1'000'000u}) {
    // As many slots as regions keep every entry live; each region is then used again, in turn.
    Bench b(false, 1u << 20);
    const uint64_t tasks = std::max<uint64_t>(regions * 2, 200'000);
    print(("inline: " + std::to_string(regions) + " live regions").c_str(),
          b.time(tasks, std::min(rounds, 3), [&](Bench &bench) {
            for (uint64_t i = 0; i < tasks; i++) bench.submit(datum(i % regions), SIMPLER_TAG_INOUT);
          }));
  }
  for (const uint64_t tasks : {1'000u, 100'000u, 10'000'000u}) {
    Bench b(false, 4096);
    b.time(kTasks, 1, chain);  // touches every slot
    print(("inline: chain of " + std::to_string(tasks)).c_str(),
          b.time(tasks, tasks > 1'000'000 ? 1 : rounds, [&](Bench &bench) {
            for (uint64_t i = 0; i < tasks; i++) bench.submit(datum(0), SIMPLER_TAG_INOUT);
          }));
  }
  for (const uint64_t tensors : {1u, 8u, 128u}) {
    Bench b(false, 4096);
    const uint64_t tasks = 200'000 / tensors;
    print(("inline: " + std::to_string(tensors) + " tensors per task, per tensor").c_str(),
          b.time(tasks * tensors, rounds, [&](Bench &bench) {
            for (uint64_t i = 0; i < tasks; i++) {
              TaskSlot *task = bench.open();
              for (uint64_t k = 0; k < tensors; k++) bench.engine().access(*task, datum(k), SIMPLER_TAG_INOUT);
              bench.commit(task);
            }
          }));
  }
  for (const uint64_t producers : {10u, 1'000u, 10'000u}) {
    Bench b(false, 1u << 15);
    const uint64_t sets = 200'000 / producers;
    print(("inline: fan-in of " + std::to_string(producers) + ", per producer").c_str(),
          b.time(sets * producers, rounds, [&](Bench &bench) {
            simpler_tensor all = datum(0);
            all.shape[0] = producers * 16;
            for (uint64_t s = 0; s < sets; s++) {
              for (uint64_t i = 0; i < producers; i++) bench.submit(datum(i), SIMPLER_TAG_INOUT);
              bench.submit(all, SIMPLER_TAG_INPUT);
            }
          }));
  }
}

}  // namespace

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 7;
  std::printf("spinning round trip %.0f ns\n", round_trip_ns());
  graphs(rounds);
  std::printf("spinning round trip %.0f ns\n", round_trip_ns());
  sizes(rounds);
  return 0;
}
