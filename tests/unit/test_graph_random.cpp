// lib/graph against an oracle: random graphs of random views, run in random order on one thread, must give what running the
// tasks one by one gives; and several threads must agree with it too.
//
// A failing seed is printed; SEED=<number> runs that one alone.
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
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

// What a task of the test does: reads every byte of its inputs and writes a value that depends on all of them.
struct Work {
  uint64_t number = 0;
  std::vector<simpler_tensor> views;
  std::vector<simpler_tag> tags;
  bool fails = false;
};

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

void do_work(const Work &work) {
  uint8_t sum = static_cast<uint8_t>(work.number * 37 + 11);
  for (size_t i = 0; i < work.views.size(); i++) {
    if (work.tags[i] != SIMPLER_TAG_INPUT && work.tags[i] != SIMPLER_TAG_INOUT) continue;
    for_each_byte(work.views[i], [&](const uint8_t *byte) { sum = static_cast<uint8_t>(sum * 31 + *byte); });
  }
  for (size_t i = 0; i < work.views.size(); i++) {
    if (work.tags[i] == SIMPLER_TAG_INPUT || work.tags[i] == SIMPLER_TAG_NO_DEP) continue;
    for_each_byte(work.views[i], [&](uint8_t *byte) { *byte = static_cast<uint8_t>(sum = static_cast<uint8_t>(sum * 5 + 1)); });
  }
}

simpler_tensor random_view(std::mt19937_64 &random, uint8_t *base) {
  auto below = [&](uint64_t n) { return random() % n; };
  static const simpler_dtype dtypes[] = {SIMPLER_DTYPE_UINT8, SIMPLER_DTYPE_INT16, SIMPLER_DTYPE_FLOAT32};
  const simpler_dtype dtype = dtypes[below(3)];
  const uint64_t bytes = simpler_dtype_bits(dtype) / 8;
  simpler_tensor t;
  if (below(3) == 0) {  // an interval anywhere
    const uint64_t start = below(kArenaBytes - 32) / bytes * bytes;
    const uint64_t count = below(32) / bytes;
    t = simpler_tensor_make(dtype, 1, &count);
    t.data = base + start;
  } else {  // a tile of a matrix whose rows have 32 or 64 bytes, maybe with steps, maybe transposed
    const uint64_t row = below(2) == 0 ? 32 : 64;
    const uint64_t step = 1 + below(2);
    const uint64_t rows = 1 + below(4);
    const uint64_t columns = 1 + below(row / bytes);
    const uint64_t first_row = below(kArenaBytes / row - rows * step + 1);
    const uint64_t first_column = below(row / bytes - columns + 1);
    const uint64_t shape[] = {rows, columns};
    t = simpler_tensor_make(dtype, 2, shape);
    t.strides[0] = row / bytes * step;
    t.data = base + first_row * row + first_column * bytes;
    if (below(4) == 0) t = simpler_tensor_transpose(&t, 0, 1);
  }
  t.allocation = base;
  t.allocation_bytes = kArenaBytes;
  return t;
}

// The same random program builds the graph for the engine and the list for the oracle.
struct Program {
  std::mt19937_64 random;
  explicit Program(uint64_t seed) : random(seed) {}
  uint64_t below(uint64_t n) { return random() % n; }
};

struct Seeded {
  alignas(64) uint8_t arena[kArenaBytes] = {};
  alignas(64) uint8_t expected[kArenaBytes] = {};
  std::vector<std::unique_ptr<std::byte[]>> heaps;
  std::vector<TaskSlot *> ready;
  std::mt19937_64 schedule;
  Engine *engine = nullptr;

  bool run_one() {
    if (ready.empty()) return false;
    const size_t pick = schedule() % ready.size();
    TaskSlot *task = ready[pick];
    ready.erase(ready.begin() + static_cast<ptrdiff_t>(pick));
    do_work(**static_cast<Work **>(task->payload));
    for (TaskSlot *next = engine->complete(*task, Outcome::kDone); next != nullptr;) {
      TaskSlot *after = next->next_ready;
      ready.push_back(next);
      next = after;
    }
    return true;
  }
};

// Values of OUTPUT tensors as the oracle sees them: memory of its own, made in submission order.
void run_seed(uint64_t seed) {
  Seeded s;
  Program p(seed);
  s.schedule.seed(seed * 7919 + 1);
  EngineOptions options;
  options.window = uint32_t{4} << p.below(4);
  options.heap_bytes = 64u << (4 + p.below(4));
  options.heap_memory = [&](uint32_t, uint64_t bytes) {
    s.heaps.push_back(std::make_unique<std::byte[]>(bytes));
    return s.heaps.back().get();
  };
  options.help = [&] { return s.run_one(); };
  Engine engine(options);
  s.engine = &engine;

  for (int run = 0; run < 2; run++) {
    memset(s.arena, run, sizeof s.arena);
    memset(s.expected, run, sizeof s.expected);
    std::deque<Work> works;
    struct Output {
      simpler_tensor view;
      simpler_tensor oracle;
    };
    std::deque<std::unique_ptr<uint8_t[]>> oracle_memory;
    std::vector<std::vector<Output>> scopes;  // outputs that are alive, per open scope
    std::vector<TaskId> ids;

    engine.begin_run({});
    engine.scope_begin(ScopeMode::kAuto);
    scopes.emplace_back();
    const uint64_t steps = 10 + p.below(60);
    for (uint64_t step = 0; step < steps; step++) {
      const uint64_t action = p.below(12);
      if (action == 0 && scopes.size() < 4) {
        engine.scope_begin(ScopeMode::kAuto);
        scopes.emplace_back();
        continue;
      }
      if (action == 1 && scopes.size() > 1) {
        engine.scope_end();
        scopes.pop_back();
        continue;
      }
      Work &work = works.emplace_back();
      Work oracle;
      work.number = oracle.number = step;
      // Outputs only where the rings leave room for sure: one per scope and a quarter of the window in all.
      const bool makes_output = p.below(3) == 0 && scopes.back().size() + 2 < options.window / 2 &&
                                (scopes.back().size() + 1) * 64 * 2 <= options.heap_bytes;
      HeapBlock block;
      const uint64_t sizes[] = {16 + p.below(48)};
      const std::span<const uint64_t> outputs = makes_output ? std::span<const uint64_t>(sizes) : std::span<const uint64_t>();
      TaskSlot *task = nullptr;
      try {
        task = engine.open(sizeof(Work *), outputs, &block);
      } catch (const Error &error) {
        // Only a scope that owns memory can block its ring for good; the run then ends with what was submitted so far.
        if (scopes.back().empty()) fail_msg("seed %lu: a deadlock without cause: %s", seed, error.what());
        works.pop_back();
        break;
      }
      assert_non_null(task);
      *static_cast<Work **>(task->payload) = &work;
      auto add = [&](const simpler_tensor &view, const simpler_tensor &oracle_view, simpler_tag tag) {
        engine.access(*task, view, tag);
        work.views.push_back(view);
        work.tags.push_back(tag);
        oracle.views.push_back(oracle_view);
        oracle.tags.push_back(tag);
      };
      const uint64_t arguments = p.below(4);
      for (uint64_t i = 0; i < arguments; i++) {
        static const simpler_tag tags[] = {SIMPLER_TAG_INPUT, SIMPLER_TAG_INPUT, SIMPLER_TAG_INOUT, SIMPLER_TAG_OUTPUT_EXISTING};
        const simpler_tag tag = tags[p.below(4)];
        const uint64_t from = p.below(scopes.size());
        if (p.below(2) == 0 && !scopes[from].empty()) {
          const Output &output = scopes[from][p.below(scopes[from].size())];
          add(output.view, output.oracle, tag);
        } else {
          simpler_tensor view = random_view(p.random, s.arena);
          simpler_tensor oracle_view = view;
          oracle_view.data = s.expected + (static_cast<uint8_t *>(view.data) - s.arena);
          add(view, oracle_view, tag);
        }
      }
      if (makes_output) {
        memset(block.data, 0, sizes[0]);
        simpler_tensor view = simpler_tensor_make(SIMPLER_DTYPE_UINT8, 1, sizes);
        view.data = view.allocation = block.data;
        view.allocation_bytes = sizes[0];
        view.owner = task->id;
        oracle_memory.push_back(std::make_unique<uint8_t[]>(sizes[0]));
        simpler_tensor oracle_view = view;
        oracle_view.data = oracle_memory.back().get();
        add(view, oracle_view, SIMPLER_TAG_OUTPUT);
        scopes.back().push_back({view, oracle_view});
      }
      if (!ids.empty() && p.below(5) == 0) engine.after(*task, ids[p.below(ids.size())]);
      ids.push_back(task->id);
      do_work(oracle);
      if (engine.commit(*task)) s.ready.push_back(task);
      for (uint64_t k = p.below(3); k > 0; k--) s.run_one();
    }
    engine.end_run();
    if (memcmp(s.arena, s.expected, sizeof s.arena) != 0)
      fail_msg("seed %lu, run %d: results differ from running the tasks in order. Replay: SEED=%lu %s", seed, run, seed,
               "tests/unit/test_graph_random");
    const RunStatistics statistics = engine.statistics();
    assert_int_equal(statistics.done, statistics.submitted);
  }
}

void random_graphs_equal_sequential_execution(void **) {
  const char *only = getenv("SEED");
  if (only != nullptr) {
    run_seed(strtoull(only, nullptr, 10));
    return;
  }
  for (uint64_t seed = 1; seed <= kSeeds; seed++) run_seed(seed);
}

// ---- threads --------------------------------------------------------------------------------------------------------

// Ready tasks for several completers; a plain locked queue, so that only the engine's own synchronisation orders the data.
struct SharedQueue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<TaskSlot *> tasks;
  bool closed = false;

  void push(TaskSlot *chain) {
    const std::lock_guard lock(mutex);
    while (chain != nullptr) {
      TaskSlot *next = chain->next_ready;
      tasks.push_back(chain);
      chain = next;
    }
    changed.notify_all();
  }
  TaskSlot *pop() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return closed || !tasks.empty(); });
    if (tasks.empty()) return nullptr;
    TaskSlot *task = tasks.front();
    tasks.pop_front();
    return task;
  }
};

// A grid of counters; each task checks that its neighbours' values are exactly what submission order says.
void several_completers_keep_every_order(void **) {
  constexpr uint64_t kSide = 24;
  constexpr int kRounds = 40;
  static uint64_t grid[kSide][kSide];
  struct Cell {
    uint64_t i, j, round;
  };
  SharedQueue queue;
  std::atomic<uint64_t> wrong{0};
  EngineOptions options;
  options.window = 256;
  options.heap_bytes = 4096;
  options.heap_memory = [](uint32_t, uint64_t) { return static_cast<std::byte *>(nullptr); };
  Engine engine(options);
  std::vector<std::thread> completers;
  for (int t = 0; t < 3; t++) {
    completers.emplace_back([&] {
      while (TaskSlot *task = queue.pop()) {
        const Cell cell = *static_cast<Cell *>(task->payload);
        const bool right = (cell.i == 0 || grid[cell.i - 1][cell.j] == cell.round + 1) &&
                           (cell.j == 0 || grid[cell.i][cell.j - 1] == cell.round + 1) && grid[cell.i][cell.j] == cell.round;
        if (!right) wrong.fetch_add(1);
        grid[cell.i][cell.j]++;
        queue.push(engine.complete(*task, Outcome::kDone));
      }
    });
  }
  auto view = [](uint64_t i, uint64_t j) {
    const uint64_t one = 1;
    simpler_tensor t = simpler_tensor_make(SIMPLER_DTYPE_UINT64, 1, &one);
    t.data = &grid[i][j];
    t.allocation = grid;
    t.allocation_bytes = sizeof grid;
    return t;
  };
  memset(grid, 0, sizeof grid);
  engine.begin_run({});
  engine.scope_begin(ScopeMode::kAuto);
  for (uint64_t round = 0; round < kRounds; round++) {
    for (uint64_t i = 0; i < kSide; i++) {
      for (uint64_t j = 0; j < kSide; j++) {
        TaskSlot *task = engine.open(sizeof(Cell), {}, nullptr);
        *static_cast<Cell *>(task->payload) = {i, j, round};
        if (i > 0) engine.access(*task, view(i - 1, j), SIMPLER_TAG_INPUT);
        if (j > 0) engine.access(*task, view(i, j - 1), SIMPLER_TAG_INPUT);
        engine.access(*task, view(i, j), SIMPLER_TAG_INOUT);
        if (engine.commit(*task)) {
          task->next_ready = nullptr;
          queue.push(task);
        }
      }
    }
  }
  engine.end_run();
  {
    const std::lock_guard lock(queue.mutex);
    queue.closed = true;
    queue.changed.notify_all();
  }
  for (std::thread &thread : completers) thread.join();
  assert_int_equal(wrong.load(), 0);
  assert_int_equal(engine.statistics().done, kSide * kSide * kRounds);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      SIMPLER_TEST(random_graphs_equal_sequential_execution),
      SIMPLER_TEST(several_completers_keep_every_order),
  };
  return simpler_run_tests(tests);
}
