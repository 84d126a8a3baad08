// lib/graph against oracles: random graphs of random views, scopes, tags, explicit dependencies and failures, in random order on
// one thread and on several, must give what running the tasks one by one gives; and each task must wait for, and be skipped
// with, exactly whom a byte-by-byte record of writers and readers names.
//
// A failing seed is printed; SEED=<number> runs that one alone.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "support.h"

#include "base/error.h"
#include "graph/engine.h"

using namespace simpler;
using namespace simpler::graph;

namespace {

constexpr uint64_t kArenaBytes = 512;
constexpr uint64_t kSeeds = 4000;
constexpr uint64_t kThreadedSeeds = 150;

// ---- views and what tasks do with them ------------------------------------------------------------------------------

template <class Visit>
void for_each_byte(const simpler_tensor &t, Visit visit) {
  const uint64_t bytes = simpler_dtype_bits(t.dtype) / 8;
  uint64_t index[SIMPLER_RANK_MAX] = {};
  if (simpler_tensor_elements(&t) == 0) return;
  for (;;) {
    uint64_t offset = 0;
    for (uint32_t i = 0; i < t.rank; i++) offset += index[i] * t.strides[i];
    for (uint64_t b = 0; b < bytes; b++) visit(static_cast<uint8_t *>(t.data) + offset * bytes + b);
    uint32_t axis = t.rank;
    while (axis > 0 && ++index[axis - 1] == t.shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

bool reads(simpler_tag tag) { return tag == SIMPLER_TAG_INPUT || tag == SIMPLER_TAG_INOUT; }
bool writes(simpler_tag tag) { return tag != SIMPLER_TAG_INPUT && tag != SIMPLER_TAG_NO_DEP; }

struct Use {
  simpler_tensor view;
  uint8_t *oracle;  // where the oracle keeps the bytes of view.allocation
  uint64_t first;   // number of that byte in the record of accesses
  simpler_tag tag;

  simpler_tensor oracle_view() const {
    simpler_tensor t = view;
    t.data = oracle + (static_cast<uint8_t *>(view.data) - static_cast<uint8_t *>(view.allocation));
    return t;
  }
};

struct Work {
  uint64_t number = 0;
  TaskId id = 0;
  bool fails = false;
  bool is_abandoned = false;
  std::vector<Use> uses;
  std::set<Work *> producers;       // that it must wait for
  std::set<Work *> near_producers;  // that it may wait for: their hulls meet
  std::atomic<bool> has_ended{false};
  bool has_run = false;

  bool went_well() const { return has_run && !fails; }
};

// Reads every byte of its inputs and writes values that depend on all of them.
void do_work(const Work &work, bool for_oracle) {
  uint8_t sum = static_cast<uint8_t>(work.number * 37 + 11);
  for (const Use &use : work.uses) {
    if (!reads(use.tag)) continue;
    for_each_byte(for_oracle ? use.oracle_view() : use.view,
                  [&](const uint8_t *byte) { sum = static_cast<uint8_t>(sum * 31 + *byte); });
  }
  for (const Use &use : work.uses) {
    if (!writes(use.tag)) continue;
    for_each_byte(for_oracle ? use.oracle_view() : use.view,
                  [&](uint8_t *byte) { *byte = sum = static_cast<uint8_t>(sum * 5 + 1); });
  }
}

// Per byte the last writer and the readers since.
class AccessRecord {
 public:
  uint64_t add_bytes(uint64_t count) {
    const uint64_t first = bytes_.size();
    bytes_.resize(first + count);
    return first;
  }
  void access(Work &work, const Use &use) {
    for_each_byte(use.view, [&](const uint8_t *at) {
      Byte &byte = bytes_[use.first + static_cast<uint64_t>(at - static_cast<uint8_t *>(use.view.allocation))];
      if (byte.writer != nullptr) work.producers.insert(byte.writer);
      if (writes(use.tag)) {
        work.producers.insert(byte.readers.begin(), byte.readers.end());
        byte.readers.clear();
        byte.writer = &work;
      } else if (byte.readers.empty() || byte.readers.back() != &work) {
        byte.readers.push_back(&work);
      }
    });
    work.producers.erase(&work);
  }

 private:
  struct Byte {
    Work *writer = nullptr;
    std::vector<Work *> readers;
  };
  std::vector<Byte> bytes_;
};

bool hulls_meet(const Work &a, const Work &b) {
  for (const Use &x : a.uses) {
    for (const Use &y : b.uses) {
      if (x.view.allocation != y.view.allocation || x.first != y.first) continue;
      if (!writes(x.tag) && !writes(y.tag)) continue;
      if (x.tag == SIMPLER_TAG_NO_DEP || y.tag == SIMPLER_TAG_NO_DEP) continue;
      Region r;
      Region s;
      if (region_of(x.view, r) && region_of(y.view, s) && r.begin < s.end && s.begin < r.end) return true;
    }
  }
  return false;
}

// ---- executors ------------------------------------------------------------------------------------------------------

// Ready tasks, taken in random order: by the blocked submitter itself, or by threads.
class Executor {
 public:
  Executor(uint64_t seed, int threads) : schedule_(seed) {
    for (int i = 0; i < threads; i++) {
      threads_.emplace_back([this] {
        while (run_one(true)) {
        }
      });
    }
  }
  ~Executor() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      changed_.notify_all();
    }
    for (std::thread &thread : threads_) thread.join();
  }
  void attach(Engine &engine) { engine_ = &engine; }
  bool has_threads() const { return !threads_.empty(); }
  void push(TaskSlot *chain) {
    const std::lock_guard lock(mutex_);
    for (TaskSlot *next; chain != nullptr; chain = next) {
      next = chain->next_ready;
      ready_.push_back(chain);
    }
    changed_.notify_all();
  }
  bool run_one(bool waits = false) {
    TaskSlot *task = pop(waits);
    if (task == nullptr) return false;
    Work &work = **static_cast<Work **>(task->payload);
    for (const Work *producer : work.producers) {
      if (!producer->has_ended.load(std::memory_order_relaxed)) too_early_.fetch_add(1);
      if (!producer->went_well()) not_skipped_.fetch_add(1);
    }
    work.has_run = true;
    if (!work.fails) do_work(work, false);
    work.has_ended.store(true, std::memory_order_relaxed);
    push(engine_->complete(*task, work.fails ? Outcome::kFailed : Outcome::kDone));
    return true;
  }
  uint64_t too_early() const { return too_early_; }
  uint64_t not_skipped() const { return not_skipped_; }

 private:
  TaskSlot *pop(bool waits) {
    std::unique_lock lock(mutex_);
    if (waits) changed_.wait(lock, [&] { return is_over_ || !ready_.empty(); });
    if (ready_.empty()) return nullptr;
    std::swap(ready_[schedule_() % ready_.size()], ready_.back());
    TaskSlot *task = ready_.back();
    ready_.pop_back();
    return task;
  }

  std::mutex mutex_;  // guards ready_, schedule_, is_over_
  std::condition_variable changed_;
  std::vector<TaskSlot *> ready_;
  std::mt19937_64 schedule_;
  bool is_over_ = false;
  Engine *engine_ = nullptr;
  std::atomic<uint64_t> too_early_{0};
  std::atomic<uint64_t> not_skipped_{0};
  std::vector<std::thread> threads_;
};

// ---- programs -------------------------------------------------------------------------------------------------------

// Of the last two every relation is known exactly. Manual scopes are in the first only: what is written in one does not replace
// what was known before it, so that later tasks wait for more than the record says.
enum class Views {
  kAll,
  kIntervals,
  kTiles
};

// One engine, one arena, two runs of a random program.
class Program {
 public:
  Program(uint64_t seed, Views views, int threads)
      : seed_(seed), views_(views), random_(seed), executor_(seed * 7919 + 1, threads) {
    EngineOptions options;
    options.window = views == Views::kAll ? uint32_t{4} << below(4) : 128;
    options.heap_bytes = 64u << (4 + below(4));
    window_ = options.window;
    heap_bytes_ = options.heap_bytes;
    options.heap_memory = [this](uint32_t, uint64_t bytes) {
      heaps_.push_back(std::make_unique<std::byte[]>(bytes));
      return heaps_.back().get();
    };
    if (threads == 0) options.help = [this] { return executor_.run_one(); };
    engine_ = std::make_unique<Engine>(options);
    executor_.attach(*engine_);
  }

  void run(int number) {
    memset(arena_, number, sizeof arena_);
    memset(expected_, number, sizeof expected_);
    works_.clear();
    record_ = AccessRecord();
    arena_first_ = record_.add_bytes(kArenaBytes);
    scopes_.clear();
    engine_->begin_run({});
    begin_scope(false);
    for (uint64_t steps = 10 + below(60); steps > 0; steps--) {
      const uint64_t action = below(14);
      if (action == 0 && scopes_.size() < 4) {
        begin_scope(scopes_.back().is_manual || (views_ == Views::kAll && below(3) == 0));
      } else if (action == 1 && scopes_.size() > 1) {
        engine_->scope_end();
        scopes_.pop_back();
      } else if (action == 2 && has_room_for_memory()) {
        allocate();
      } else if (!submit()) {
        break;
      }
      for (uint64_t k = executor_.has_threads() ? 0 : below(3); k > 0; k--) executor_.run_one();
    }
    engine_->end_run();
    check(number);
  }

 private:
  struct Memory {
    simpler_tensor view;
    uint8_t *oracle;
    uint64_t first;
  };
  struct OpenScope {
    bool is_manual;
    std::vector<Memory> memories;
  };

  uint64_t below(uint64_t n) { return random_() % n; }

  void begin_scope(bool is_manual) {
    engine_->scope_begin(is_manual ? ScopeMode::kManual : ScopeMode::kAuto);
    scopes_.push_back({is_manual, {}});
  }
  // Mostly keeps the scope from blocking its own rings; other tasks may still do so, which then is a deadlock with a cause.
  bool has_room_for_memory() const {
    const uint64_t count = scopes_.back().memories.size() + 1;
    return count + 1 < window_ / 2 && count * 128 <= heap_bytes_;
  }
  Memory make_memory(std::byte *data, uint64_t bytes, TaskId owner) {
    Memory memory;
    memory.view = simpler_tensor_make(SIMPLER_DTYPE_UINT8, 1, &bytes);
    memory.view.data = memory.view.allocation = data;
    memory.view.allocation_bytes = bytes;
    memory.view.owner = owner;
    oracle_memory_.push_back(std::make_unique<uint8_t[]>(bytes));
    memory.oracle = oracle_memory_.back().get();
    memory.first = record_.add_bytes(bytes);
    return memory;
  }
  void allocate() {
    try {
      TaskId owner = 0;
      const HeapBlock block = engine_->allocate(1 + below(64), &owner);
      for (uint64_t i = 0; i < block.bytes; i++) assert_int_equal(static_cast<int>(block.data[i]), 0);
      scopes_.back().memories.push_back(make_memory(block.data, block.bytes, owner));
    } catch (const Error &error) {
      check_deadlock(error);
    }
  }
  void check_deadlock(const Error &error) {
    if (scopes_.back().memories.empty()) fail_msg("seed %lu: a deadlock without cause: %s", seed_, error.what());
  }

  Use random_use() {
    static const simpler_tag tags[] = {SIMPLER_TAG_INPUT, SIMPLER_TAG_INPUT,           SIMPLER_TAG_INPUT, SIMPLER_TAG_INOUT,
                                       SIMPLER_TAG_INOUT, SIMPLER_TAG_OUTPUT_EXISTING, SIMPLER_TAG_NO_DEP};
    const simpler_tag tag = tags[below(7)];
    const std::vector<Memory> &memories = scopes_[below(scopes_.size())].memories;
    if (below(2) == 0 && !memories.empty()) {
      const Memory &memory = memories[below(memories.size())];
      const uint64_t start = below(memory.view.shape[0]);
      return {simpler_tensor_slice(&memory.view, 0, start, below(memory.view.shape[0] - start + 1)), memory.oracle,
              memory.first, tag};
    }
    return {random_view(), expected_, arena_first_, tag};
  }
  simpler_tensor random_view() {
    static const simpler_dtype dtypes[] = {SIMPLER_DTYPE_UINT8, SIMPLER_DTYPE_INT16, SIMPLER_DTYPE_FLOAT32};
    const simpler_dtype dtype = dtypes[below(3)];
    const uint64_t bytes = simpler_dtype_bits(dtype) / 8;
    simpler_tensor t;
    if (views_ == Views::kIntervals || (views_ == Views::kAll && below(3) == 0)) {
      const uint64_t start = below(kArenaBytes - 48) / bytes * bytes;
      const uint64_t count = below(48) / bytes;
      t = simpler_tensor_make(dtype, 1, &count);
      t.data = arena_ + start;
    } else {  // a tile of a matrix, maybe with steps between rows, maybe transposed
      const uint64_t row = views_ == Views::kTiles || below(2) == 0 ? 32 : 64;
      const uint64_t step = views_ == Views::kTiles ? 1 : 1 + below(2);
      const uint64_t columns = below(5) == 0 ? row / bytes : 1 + below(row / bytes);
      // A piece of one row is an interval; cut out of whole rows it leaves intervals that are no blocks of rows.
      const uint64_t rows = (views_ == Views::kTiles && columns != row / bytes ? 2 : 1) + below(3);
      const uint64_t first_row = below(kArenaBytes / row - rows * step + 1);
      const uint64_t first_column = below(row / bytes - columns + 1);
      const uint64_t shape[] = {rows, columns};
      t = simpler_tensor_make(dtype, 2, shape);
      t.strides[0] = row / bytes * step;
      t.data = arena_ + first_row * row + first_column * bytes;
      if (below(4) == 0) t = simpler_tensor_transpose(&t, 0, 1);
    }
    t.allocation = arena_;
    t.allocation_bytes = kArenaBytes;
    return t;
  }

  bool submit() {
    const bool makes_output = below(3) == 0 && has_room_for_memory();
    const uint64_t sizes[] = {16 + below(48)};
    HeapBlock block;
    TaskSlot *task = nullptr;
    try {
      task = engine_->open(sizeof(void *), makes_output ? std::span<const uint64_t>(sizes) : std::span<const uint64_t>(),
                           &block);
    } catch (const Error &error) {
      check_deadlock(error);
      return false;
    }
    assert_non_null(task);
    Work &work = works_.emplace_back();
    *static_cast<Work **>(task->payload) = &work;
    work.number = works_.size();
    work.id = task->id;
    work.fails = below(40) == 0;
    work.is_abandoned = below(60) == 0;
    for (uint64_t i = below(4); i > 0; i--) work.uses.push_back(random_use());
    if (makes_output) {
      const Memory memory = make_memory(block.data, sizes[0], task->id);
      work.uses.push_back({memory.view, memory.oracle, memory.first, SIMPLER_TAG_OUTPUT});
      scopes_.back().memories.push_back(memory);
    }
    for (Work &other : works_) {
      if (&other != &work && hulls_meet(other, work)) work.near_producers.insert(&other);
    }
    for (const Use &use : work.uses) {
      engine_->access(*task, use.view, use.tag);
      if (use.tag != SIMPLER_TAG_NO_DEP) record_.access(work, use);
    }
    if (scopes_.back().is_manual) {
      for (const Work *producer : work.producers) engine_->after(*task, producer->id);
    }
    if (works_.size() > 1 && below(5) == 0) {
      Work &producer = works_[below(works_.size() - 1)];
      engine_->after(*task, producer.id);
      work.producers.insert(&producer);
      work.near_producers.insert(&producer);
    }
    if (!old_ids_.empty() && below(8) == 0) engine_->after(*task, old_ids_[below(old_ids_.size())]);
    edges_ += work.producers.size();
    if (work.is_abandoned) {
      work.has_ended.store(true, std::memory_order_relaxed);
      engine_->abandon(*task);
    } else if (engine_->commit(*task)) {
      task->next_ready = nullptr;
      executor_.push(task);
    }
    return true;
  }

  void check(int number) {
    uint64_t done = 0;
    uint64_t failed = 0;
    uint64_t submitted = 0;
    for (const Work &work : works_) {
      old_ids_.push_back(work.id);
      if (work.went_well()) do_work(work, true);
      done += work.went_well() ? 1 : 0;
      failed += work.has_run && work.fails ? 1 : 0;
      submitted += work.is_abandoned ? 0 : 1;
      if (work.has_run || work.is_abandoned) continue;
      const bool has_cause = std::any_of(work.near_producers.begin(), work.near_producers.end(),
                                         [](const Work *producer) { return !producer->went_well(); });
      if (!has_cause) report(number, "a task was skipped without cause");
    }
    if (executor_.too_early() != 0) report(number, "a task ran before one that it must wait for");
    if (executor_.not_skipped() != 0) report(number, "a task ran although one that it depends on did not end well");
    if (memcmp(arena_, expected_, sizeof arena_) != 0) report(number, "results differ from running the tasks in order");
    const RunStatistics statistics = engine_->statistics();
    if (statistics.submitted != submitted || statistics.done != done || statistics.failed != failed ||
        statistics.skipped != submitted - done - failed)
      report(number, "the counts are wrong");
    if (views_ != Views::kAll && statistics.dependencies != edges_)
      report(number, "the number of dependencies is not the oracle's");
    edges_ = 0;
  }
  void report(int number, const char *what) const {
    fail_msg("seed %lu, run %d: %s. Replay: SEED=%lu tests/unit/test_graph_random", seed_, number, what, seed_);
  }

  const uint64_t seed_;
  const Views views_;
  std::mt19937_64 random_;
  uint32_t window_ = 0;
  uint64_t heap_bytes_ = 0;
  alignas(64) uint8_t arena_[kArenaBytes];
  alignas(64) uint8_t expected_[kArenaBytes];
  uint64_t arena_first_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> heaps_;
  std::deque<std::unique_ptr<uint8_t[]>> oracle_memory_;
  std::deque<Work> works_;
  std::vector<TaskId> old_ids_;
  std::vector<OpenScope> scopes_;
  AccessRecord record_;
  uint64_t edges_ = 0;
  std::unique_ptr<Engine> engine_;
  Executor executor_;  // last: its threads end before the engine goes
};

void sweep(uint64_t seeds, Views views, int threads) {
  const char *only = getenv("SEED");
  const uint64_t first = only != nullptr ? strtoull(only, nullptr, 10) : 1;
  const uint64_t last = only != nullptr ? first : seeds;
  for (uint64_t seed = first; seed <= last; seed++) {
    Program program(seed, views, threads);
    program.run(0);
    program.run(1);
  }
}

void random_graphs_equal_sequential_execution(void **) { sweep(kSeeds, Views::kAll, 0); }
void intervals_give_exactly_the_edges_of_a_byte_by_byte_record(void **) { sweep(kSeeds / 2, Views::kIntervals, 0); }
void tiles_give_exactly_the_edges_of_a_byte_by_byte_record(void **) { sweep(kSeeds / 2, Views::kTiles, 0); }
void several_completers_equal_sequential_execution(void **) { sweep(kThreadedSeeds, Views::kAll, 3); }

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      SIMPLER_TEST(random_graphs_equal_sequential_execution),
      SIMPLER_TEST(intervals_give_exactly_the_edges_of_a_byte_by_byte_record),
      SIMPLER_TEST(tiles_give_exactly_the_edges_of_a_byte_by_byte_record),
      SIMPLER_TEST(several_completers_equal_sequential_execution),
  };
  return simpler_run_tests(tests);
}
