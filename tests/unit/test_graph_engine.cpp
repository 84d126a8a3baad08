// lib/graph through its engine: dependencies, scopes, rings, failure propagation, limits. One thread plays all parts.
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support.h"

#include "base/error.h"
#include "graph/engine.h"

using namespace simpler;
using namespace simpler::graph;

namespace {

alignas(64) std::byte arena[1 << 20];

simpler_tensor bytes_at(uint64_t offset, uint64_t count) {
  simpler_tensor t = simpler_tensor_make(SIMPLER_DTYPE_UINT8, 1, &count);
  t.allocation = arena;
  t.allocation_bytes = sizeof arena;
  t.data = arena + offset;
  return t;
}

// A rows x columns tile at (row, column) of a matrix of bytes with `stride` columns.
simpler_tensor tile(uint64_t stride, uint64_t row, uint64_t column, uint64_t rows, uint64_t columns) {
  const uint64_t shape[] = {rows, columns};
  simpler_tensor t = simpler_tensor_make(SIMPLER_DTYPE_UINT8, 2, shape);
  t.strides[0] = stride;
  t.allocation = arena;
  t.allocation_bytes = sizeof arena;
  t.data = arena + row * stride + column;
  return t;
}

struct Use {
  simpler_tensor view;
  simpler_tag tag;
};

// An engine with a queue of ready tasks that the test runs when it likes.
struct Fixture {
  std::vector<std::unique_ptr<std::byte[]>> heaps;
  std::deque<TaskSlot *> ready;
  bool help_runs = true;  // whether a blocked submitter runs ready tasks
  std::unique_ptr<Engine> engine;

  explicit Fixture(uint32_t window = 64, uint64_t heap_bytes = 1 << 16) {
    EngineOptions options;
    options.window = window;
    options.heap_bytes = heap_bytes;
    options.heap_memory = [this](uint32_t, uint64_t bytes) {
      heaps.push_back(std::make_unique<std::byte[]>(bytes));
      return heaps.back().get();
    };
    options.help = [this] { return help_runs && run_one(); };
    engine = std::make_unique<Engine>(options);
    begin();
  }
  void begin(RunLimits limits = {}) {
    engine->begin_run(limits);
    engine->scope_begin(ScopeMode::kAuto);
  }
  RunStatistics end() {
    engine->end_run();
    return engine->statistics();
  }
  TaskSlot *submit(std::initializer_list<Use> uses, std::initializer_list<TaskId> after = {}) {
    TaskSlot *task = engine->open(0, {}, nullptr);
    for (const Use &use : uses) engine->access(*task, use.view, use.tag);
    for (const TaskId id : after) engine->after(*task, id);
    if (engine->commit(*task)) ready.push_back(task);
    return task;
  }
  // A task with one OUTPUT of `bytes` bytes.
  TaskSlot *produce(uint64_t bytes, simpler_tensor *out = nullptr, HeapBlock *block_out = nullptr) {
    HeapBlock block;
    const uint64_t sizes[] = {bytes};
    TaskSlot *task = engine->open(0, sizes, &block);
    simpler_tensor view = simpler_tensor_make(SIMPLER_DTYPE_UINT8, 1, &bytes);
    view.data = view.allocation = block.data;
    view.allocation_bytes = bytes;
    view.owner = task->id;
    engine->access(*task, view, SIMPLER_TAG_OUTPUT);
    if (engine->commit(*task)) ready.push_back(task);
    if (out != nullptr) *out = view;
    if (block_out != nullptr) *block_out = block;
    return task;
  }
  bool is_ready(const TaskSlot *task) const {
    for (const TaskSlot *other : ready) {
      if (other == task) return true;
    }
    return false;
  }
  void run(TaskSlot *task, Outcome outcome = Outcome::kDone) {
    for (auto it = ready.begin(); it != ready.end(); ++it) {
      if (*it != task) continue;
      ready.erase(it);
      for (TaskSlot *next = engine->complete(*task, outcome); next != nullptr;) {
        TaskSlot *after = next->next_ready;
        ready.push_back(next);
        next = after;
      }
      return;
    }
    fail_msg("task %lu is not ready", task->id);
  }
  bool run_one() {
    if (ready.empty()) return false;
    run(ready.front());
    return true;
  }
};

template <class Function>
ErrorInfo error_of(Function function) {
  try {
    function();
  } catch (const Error &error) {
    return error.info();
  }
  fail_msg("no error was thrown");
  return {};
}

// ---- dependencies ---------------------------------------------------------------------------------------------------

void a_reader_waits_for_the_writer(void **) {
  Fixture f;
  TaskSlot *writer = f.submit({{bytes_at(0, 64), SIMPLER_TAG_OUTPUT_EXISTING}});
  TaskSlot *reader = f.submit({{bytes_at(32, 4), SIMPLER_TAG_INPUT}});
  assert_true(f.is_ready(writer));
  assert_false(f.is_ready(reader));
  f.run(writer);
  assert_true(f.is_ready(reader));
  assert_int_equal(f.end().dependencies, 1);
}

void P55_a_writer_waits_for_all_readers_and_readers_for_none_of_each_other(void **) {
  Fixture f;
  TaskSlot *first = f.submit({{bytes_at(0, 64), SIMPLER_TAG_INPUT}});
  TaskSlot *second = f.submit({{bytes_at(0, 64), SIMPLER_TAG_INPUT}});
  TaskSlot *writer = f.submit({{bytes_at(60, 8), SIMPLER_TAG_INOUT}});
  assert_true(f.is_ready(first) && f.is_ready(second));
  f.run(second);
  assert_false(f.is_ready(writer));
  f.run(first);
  assert_true(f.is_ready(writer));
  f.end();
}

void writers_of_one_region_run_in_order(void **) {
  Fixture f;
  TaskSlot *first = f.submit({{bytes_at(0, 64), SIMPLER_TAG_OUTPUT_EXISTING}});
  TaskSlot *second = f.submit({{bytes_at(0, 64), SIMPLER_TAG_OUTPUT_EXISTING}});
  assert_false(f.is_ready(second));
  f.run(first);
  assert_true(f.is_ready(second));
  f.end();
}

void P57_disjoint_parts_of_one_tensor_are_independent(void **) {
  Fixture f;
  TaskSlot *first = f.submit({{bytes_at(0, 64), SIMPLER_TAG_INOUT}});
  TaskSlot *second = f.submit({{bytes_at(64, 64), SIMPLER_TAG_INOUT}});
  assert_true(f.is_ready(first) && f.is_ready(second));
  assert_int_equal(f.end().dependencies, 0);
}

void tiles_of_a_matrix_conflict_exactly_when_they_share_an_element(void **) {
  Fixture f;
  TaskSlot *left = f.submit({{tile(256, 0, 0, 16, 8), SIMPLER_TAG_INOUT}});
  TaskSlot *right = f.submit({{tile(256, 0, 8, 16, 8), SIMPLER_TAG_INOUT}});   // hulls overlap, tiles do not
  TaskSlot *across = f.submit({{tile(256, 15, 4, 4, 8), SIMPLER_TAG_INOUT}});  // touches both
  assert_true(f.is_ready(left) && f.is_ready(right));
  assert_false(f.is_ready(across));
  f.run(left);
  assert_false(f.is_ready(across));
  f.run(right);
  assert_true(f.is_ready(across));
  f.end();
}

void a_row_conflicts_with_the_column_block_that_it_crosses_only(void **) {
  Fixture f;
  TaskSlot *columns = f.submit({{tile(256, 0, 8, 16, 8), SIMPLER_TAG_INOUT}});
  TaskSlot *beside = f.submit({{bytes_at(3 * 256, 8), SIMPLER_TAG_INOUT}});
  TaskSlot *crossing = f.submit({{bytes_at(3 * 256 + 4, 8), SIMPLER_TAG_INOUT}});
  assert_true(f.is_ready(columns) && f.is_ready(beside));
  assert_false(f.is_ready(crossing));
  f.end();
}

void P60_views_of_other_shape_meet_in_memory(void **) {
  Fixture f;
  const uint64_t shape[] = {128, 6};
  simpler_tensor base = simpler_tensor_make(SIMPLER_DTYPE_UINT8, 2, shape);
  base.allocation = base.data = arena;
  base.allocation_bytes = sizeof arena;
  f.submit({{bytes_at(0, 768), SIMPLER_TAG_OUTPUT_EXISTING}});
  TaskSlot *reader = f.submit({{simpler_tensor_transpose(&base, 0, 1), SIMPLER_TAG_INPUT}});
  assert_false(f.is_ready(reader));
  simpler_tensor stepped = base;
  stepped.shape[0] = 64;
  stepped.strides[0] = 12;
  assert_false(f.is_ready(f.submit({{stepped, SIMPLER_TAG_INPUT}})));
  f.end();
}

void an_empty_view_makes_no_edge(void **) {
  Fixture f;
  f.submit({{bytes_at(0, 64), SIMPLER_TAG_INOUT}});
  assert_true(f.is_ready(f.submit({{bytes_at(0, 0), SIMPLER_TAG_INOUT}})));
  assert_int_equal(f.end().dependencies, 0);
}

void no_dep_waits_for_nothing(void **) {
  Fixture f;
  f.submit({{bytes_at(0, 64), SIMPLER_TAG_INOUT}});
  assert_true(f.is_ready(f.submit({{bytes_at(0, 64), SIMPLER_TAG_NO_DEP}})));
  assert_true(f.is_ready(f.submit({{bytes_at(64, 64), SIMPLER_TAG_INOUT}})));
  assert_int_equal(f.end().dependencies, 0);
}

void a_task_does_not_wait_for_itself(void **) {
  Fixture f;
  TaskSlot *task = f.submit({{bytes_at(0, 64), SIMPLER_TAG_OUTPUT_EXISTING},
                             {bytes_at(0, 64), SIMPLER_TAG_INPUT},
                             {bytes_at(32, 64), SIMPLER_TAG_INOUT}});
  assert_true(f.is_ready(task));
  assert_int_equal(f.end().dependencies, 0);
}

void P56_retiring_an_older_writer_keeps_the_newer_one(void **) {
  Fixture f;
  TaskSlot *older = f.submit({{bytes_at(0, 64), SIMPLER_TAG_OUTPUT_EXISTING}});
  TaskSlot *newer = f.submit({{bytes_at(0, 64), SIMPLER_TAG_OUTPUT_EXISTING}});
  f.run(older);
  TaskSlot *reader = f.submit({{bytes_at(0, 64), SIMPLER_TAG_INPUT}});
  assert_false(f.is_ready(reader));
  f.run(newer);
  assert_true(f.is_ready(reader));
  f.end();
}

void an_edge_counts_once_per_pair_also_when_the_producer_has_ended(void **) {
  Fixture f;
  TaskSlot *producer = f.submit({{bytes_at(0, 64), SIMPLER_TAG_INOUT}, {bytes_at(64, 64), SIMPLER_TAG_INOUT}});
  f.run(producer);
  f.submit({{bytes_at(0, 64), SIMPLER_TAG_INPUT}, {bytes_at(64, 64), SIMPLER_TAG_INPUT}});
  assert_int_equal(f.end().dependencies, 1);
}

void P46_fan_in_has_no_small_limit(void **) {
  for (const uint64_t producers : {16u, 17u, 64u, 65u, 129u, 1000u}) {
    Fixture f(2048);
    for (uint64_t i = 0; i < producers; i++) f.submit({{bytes_at(i * 16, 16), SIMPLER_TAG_INOUT}});
    TaskSlot *consumer = f.submit({{bytes_at(0, producers * 16), SIMPLER_TAG_INPUT}});
    for (uint64_t i = 0; i < producers; i++) {
      assert_false(f.is_ready(consumer));
      f.run_one();
    }
    assert_true(f.is_ready(consumer));
    assert_int_equal(f.end().dependencies, producers);
  }
}

void P27_fan_out_of_thousands_releases_everyone_oldest_first(void **) {
  Fixture f(8192);
  TaskSlot *producer = f.submit({{bytes_at(0, 64), SIMPLER_TAG_INOUT}});
  std::vector<TaskSlot *> consumers;
  for (int i = 0; i < 5000; i++) consumers.push_back(f.submit({{bytes_at(0, 64), SIMPLER_TAG_INPUT}}));
  assert_int_equal(f.ready.size(), 1);
  f.run(producer);
  assert_int_equal(f.ready.size(), 5000);
  for (size_t i = 0; i < consumers.size(); i++) assert_ptr_equal(f.ready[i], consumers[i]);
  f.end();
}

void a_write_of_a_part_takes_over_that_part_only(void **) {
  Fixture f;
  TaskSlot *all = f.submit({{bytes_at(0, 64), SIMPLER_TAG_INOUT}});
  TaskSlot *middle = f.submit({{bytes_at(16, 16), SIMPLER_TAG_INOUT}});
  f.run(all);
  f.run(middle);
  f.submit({{bytes_at(16, 16), SIMPLER_TAG_INPUT}});  // of `middle` alone
  f.submit({{bytes_at(0, 16), SIMPLER_TAG_INPUT}});   // of `all` alone
  f.submit({{bytes_at(0, 64), SIMPLER_TAG_INPUT}});   // of both
  assert_int_equal(f.end().dependencies, 1 + 1 + 1 + 2);
}

void P45_layers_of_rows_and_readers_of_the_whole_have_the_edges_that_they_need(void **) {
  Fixture f(1024);
  for (int layer = 0; layer < 20; layer++) {
    for (uint64_t row = 0; row < 256; row++) f.submit({{bytes_at(row * 64, 64), SIMPLER_TAG_INOUT}});
    for (int reader = 0; reader < 64; reader++) f.submit({{bytes_at(0, 256 * 64), SIMPLER_TAG_INPUT}});
  }
  const RunStatistics s = f.end();
  assert_int_equal(s.done, 20 * 320);
  // Each reader waits for 256 rows; each row of the 19 later layers for 64 readers and the row before it.
  assert_int_equal(s.dependencies, 20 * 64 * 256 + 19 * 256 * 65);
}

void readers_that_are_over_do_not_slow_down_later_ones(void **) {
  Fixture f(64);
  for (int i = 0; i < 100'000; i++) f.submit({{bytes_at(0, 64), SIMPLER_TAG_INPUT}});
  f.submit({{bytes_at(0, 64), SIMPLER_TAG_INOUT}});
  assert_true(f.end().dependencies < 1000);  // those that are still in their slots or have not been pruned yet
}

void small_regions_elsewhere_are_not_looked_at_by_a_large_one(void **) {
  Fixture f(4096);
  for (uint64_t i = 0; i < 2000; i++) f.submit({{bytes_at(i * 64, 8), SIMPLER_TAG_INOUT}});
  TaskSlot *large = f.submit({{bytes_at(512 << 10, 512 << 10), SIMPLER_TAG_INOUT}});
  assert_true(f.is_ready(large));
  // One alone in its neighbourhood is found by a query that is large for it, too.
  f.submit({{bytes_at(900 << 10, 8), SIMPLER_TAG_INOUT}});
  TaskSlot *around = f.submit({{bytes_at((900 << 10) - 1024, 4096), SIMPLER_TAG_INPUT}});
  f.run(large);
  assert_false(f.is_ready(around));
  TaskSlot *all = f.submit({{bytes_at(0, sizeof arena), SIMPLER_TAG_INOUT}});
  assert_false(f.is_ready(all));
  // `large` before the lonely one and the reader; the lonely one before the reader; 2,000, those two and `large` before `all`.
  assert_int_equal(f.end().dependencies, 2 + 1 + 2003);
}

// ---- explicit dependencies ------------------------------------------------------------------------------------------

void P64_explicit_dependencies_hold_in_any_scope_and_finished_ones_are_satisfied(void **) {
  Fixture f;
  f.engine->scope_begin(ScopeMode::kAuto);
  TaskSlot *inner = f.submit({});
  const TaskId inner_id = inner->id;
  f.engine->scope_end();
  TaskSlot *outer = f.submit({}, {inner_id});
  assert_false(f.is_ready(outer));
  f.run(inner);
  assert_true(f.is_ready(outer));
  f.run(outer);
  assert_true(f.is_ready(f.submit({}, {inner_id})));
  f.end();
  f.begin();
  assert_true(f.is_ready(f.submit({}, {inner_id})));  // of an earlier run
  f.end();
}

void a_failed_task_of_an_earlier_run_is_satisfied_too(void **) {
  Fixture f;
  TaskSlot *bad = f.submit({});
  const TaskId bad_id = bad->id;
  f.run(bad, Outcome::kFailed);
  f.end();
  f.begin();
  assert_true(f.is_ready(f.submit({}, {bad_id})));
  assert_int_equal(f.end().done, 1);
}

void explicit_dependencies_on_many_tasks_wait_for_each(void **) {
  for (const size_t producers : {1u, 5u, 6u, 100u, 1000u}) {
    Fixture f(2048);
    std::vector<TaskId> ids;
    for (size_t i = 0; i < producers; i++) ids.push_back(f.submit({})->id);
    TaskSlot *consumer = f.engine->open(0, {}, nullptr);
    for (const TaskId id : ids) f.engine->after(*consumer, id);
    for (const TaskId id : ids) f.engine->after(*consumer, id);  // again: counts once
    assert_false(f.engine->commit(*consumer));
    for (size_t i = 0; i < producers; i++) {
      assert_false(f.is_ready(consumer));
      f.run_one();
    }
    assert_true(f.is_ready(consumer));
    assert_int_equal(f.end().dependencies, producers);
  }
}

void an_explicit_dependency_on_a_task_that_never_was_is_an_error(void **) {
  Fixture f;
  TaskSlot *task = f.submit({});
  TaskSlot *bad = f.engine->open(0, {}, nullptr);
  const TaskId ids[] = {0, bad->id, bad->id + 1, task->id | (TaskId{7} << kSequenceBits), UINT64_MAX};
  for (const TaskId id : ids) {
    assert_int_equal(error_of([&] { f.engine->after(*bad, id); }).code, SIMPLER_INVALID_ARGUMENT);
  }
  f.engine->abandon(*bad);
  assert_int_equal(f.end().submitted, 1);
}

void a_manual_scope_infers_nothing_but_is_seen_by_later_tasks(void **) {
  Fixture f;
  TaskSlot *before = f.submit({{bytes_at(0, 64), SIMPLER_TAG_INOUT}});
  f.engine->scope_begin(ScopeMode::kManual);
  TaskSlot *free_writer = f.submit({{bytes_at(0, 64), SIMPLER_TAG_INOUT}});
  TaskSlot *ordered = f.submit({{bytes_at(0, 64), SIMPLER_TAG_INOUT}}, {free_writer->id});
  assert_true(f.is_ready(free_writer));
  assert_false(f.is_ready(ordered));
  f.engine->scope_end();
  TaskSlot *reader = f.submit({{bytes_at(0, 64), SIMPLER_TAG_INPUT}});
  f.run(before);
  f.run(free_writer);
  assert_false(f.is_ready(reader));
  f.run(ordered);
  assert_true(f.is_ready(reader));
  f.end();
}

// ---- rings and scopes -----------------------------------------------------------------------------------------------

void P34_a_graph_larger_than_the_window_streams(void **) {
  Fixture f(4);
  for (int i = 0; i < 1000; i++) f.submit({{bytes_at(0, 64), SIMPLER_TAG_INOUT}});
  const RunStatistics s = f.end();
  assert_int_equal(s.done, 1000);
  assert_int_equal(s.window_peak, 4);
}

void P35_a_scope_that_holds_more_than_the_window_fails_at_once_with_the_numbers(void **) {
  Fixture f(4);
  for (int i = 0; i < 4; i++) f.produce(64);
  const ErrorInfo error = error_of([&] { f.produce(64); });
  assert_int_equal(error.code, SIMPLER_DEADLOCK_WINDOW);
  assert_non_null(strstr(error.message.c_str(), "scope depth 0"));
  assert_non_null(strstr(error.message.c_str(), "used 4 of 4"));
  assert_non_null(strstr(error.message.c_str(), "`window`"));
  f.end();
  f.begin();  // P136: the next run works
  for (int i = 0; i < 4; i++) f.produce(64);
  assert_int_equal(f.end().done, 4);
}

void P36_inner_scopes_have_rings_of_their_own(void **) {
  Fixture f(4);
  for (int depth = 0; depth < 70; depth++) {
    for (int i = 0; i < 3; i++) f.produce(64);
    f.engine->scope_begin(ScopeMode::kAuto);
  }
  assert_int_equal(f.end().done, 210);
}

void scopes_nest_up_to_the_limit_and_say_so_beyond(void **) {
  Fixture f(4);
  while (f.engine->scope_depth() < kDepthMax) f.engine->scope_begin(ScopeMode::kAuto);
  assert_int_equal(error_of([&] { f.engine->scope_begin(ScopeMode::kAuto); }).code, SIMPLER_CAPACITY_WINDOW);
  f.end();
}

void P40_an_empty_heap_takes_an_allocation_of_its_full_size(void **) {
  Fixture f(16, 1000 * 64);
  f.engine->scope_begin(ScopeMode::kAuto);
  f.produce(600 * 64);
  f.engine->scope_end();
  f.engine->scope_begin(ScopeMode::kAuto);
  f.produce(1000 * 64);
  f.engine->scope_end();
  assert_int_equal(f.end().done, 2);
}

void P42_contents_survive_many_laps_of_the_heap(void **) {
  Fixture f(64, 7 * 4096);
  for (int i = 0; i < 5000; i++) {
    f.engine->scope_begin(ScopeMode::kAuto);
    simpler_tensor out;
    TaskSlot *task = f.produce(4096, &out);
    memset(out.data, i & 255, 4096);
    f.run(task);
    TaskSlot *reader = f.submit({{out, SIMPLER_TAG_INPUT}});
    for (int k = 0; k < 4096; k++) assert_int_equal(static_cast<uint8_t *>(out.data)[k], i & 255);
    f.run(reader);
    f.engine->scope_end();
  }
  assert_int_equal(f.end().done, 10000);
}

void P43_an_output_larger_than_the_heap_is_refused_with_the_numbers(void **) {
  Fixture f(16, 1024);
  const ErrorInfo error = error_of([&] { f.produce(32768); });
  assert_int_equal(error.code, SIMPLER_CAPACITY_HEAP);
  assert_non_null(strstr(error.message.c_str(), "32768 bytes requested, capacity 1024"));
  f.produce(1024);
  assert_int_equal(error_of([&] { f.produce(64); }).code, SIMPLER_DEADLOCK_HEAP);
  f.end();
}

void tasks_without_outputs_do_not_freeze_the_heap(void **) {
  Fixture f(64, 1024);
  f.engine->scope_begin(ScopeMode::kAuto);
  for (int i = 0; i < 500; i++) {
    f.engine->scope_begin(ScopeMode::kAuto);
    f.produce(512);
    f.submit({});
    f.engine->scope_end();
  }
  f.engine->scope_end();
  f.end();
}

void an_output_lives_until_its_scope_and_its_consumers_have_ended(void **) {
  Fixture f(4, 1024);
  f.help_runs = false;
  f.engine->scope_begin(ScopeMode::kAuto);
  simpler_tensor out;
  TaskSlot *producer = f.produce(1024, &out);
  f.run(producer);
  TaskSlot *no_dep = f.submit({{out, SIMPLER_TAG_NO_DEP}});
  f.engine->scope_end();
  assert_int_equal(producer->references.load(), 1);  // the consumer's
  f.run(no_dep);
  assert_int_equal(producer->references.load(), 0);
  f.end();
}

void a_tensor_used_after_its_scope_is_an_error(void **) {
  Fixture f;
  f.engine->scope_begin(ScopeMode::kAuto);
  simpler_tensor out;
  f.produce(64, &out);
  f.engine->scope_end();
  TaskSlot *task = f.engine->open(0, {}, nullptr);
  assert_int_equal(error_of([&] { f.engine->access(*task, out, SIMPLER_TAG_INPUT); }).code, SIMPLER_INVALID_ARGUMENT);
  f.engine->abandon(*task);
  f.end();
}

void heap_bytes_of_an_earlier_run_are_reported_for_zeroing(void **) {
  Fixture f(16, 4096);
  HeapBlock block;
  f.produce(1024, nullptr, &block);
  assert_int_equal(block.zero_bytes, 0);
  f.end();
  f.begin();
  f.produce(512, nullptr, &block);
  assert_int_equal(block.zero_bytes, 512);
  f.produce(1024, nullptr, &block);
  assert_int_equal(block.zero_bytes, 512);  // half of it was never used
  f.end();
  f.begin();
  TaskId owner = 0;
  memset(f.heaps[0].get(), 0xFF, 4096);
  block = f.engine->allocate(1536, &owner);
  for (int i = 0; i < 1536; i++) assert_int_equal(static_cast<int>(block.data[i]), 0);
  assert_int_equal(f.end().submitted, 0);
}

void outputs_and_allocations_of_no_bytes_own_nothing(void **) {
  Fixture f(16, 4096);
  HeapBlock blocks[3];
  const uint64_t sizes[] = {0, 64, 0};
  TaskSlot *task = f.engine->open(0, sizes, blocks);
  assert_null(blocks[0].data);
  assert_non_null(blocks[1].data);
  assert_null(blocks[2].data);
  if (f.engine->commit(*task)) f.ready.push_back(task);
  const uint64_t nothing[] = {0, 0};
  task = f.engine->open(0, nothing, blocks);
  assert_null(blocks[0].data);
  assert_int_equal(blocks[1].zero_bytes, 0);
  if (f.engine->commit(*task)) f.ready.push_back(task);
  TaskId owner = 1;
  assert_null(f.engine->allocate(0, &owner).data);
  assert_int_equal(owner, 0);
  f.end();
}

void an_allocation_reads_as_zero_where_this_run_has_written(void **) {
  Fixture f(16, 1024);
  for (int i = 0; i < 10; i++) {
    f.engine->scope_begin(ScopeMode::kAuto);
    TaskId owner = 0;
    const HeapBlock block = f.engine->allocate(1000, &owner);
    for (uint64_t k = 0; k < block.bytes; k++) assert_int_equal(static_cast<int>(block.data[k]), 0);
    memset(block.data, 0xAB, block.bytes);
    f.engine->scope_end();
  }
  f.end();
}

void drain_waits_for_everything_but_what_open_scopes_hold(void **) {
  Fixture f(16, 1024);
  simpler_tensor out;
  f.produce(64, &out);
  f.submit({{out, SIMPLER_TAG_INPUT}});
  f.engine->drain();
  assert_true(f.ready.empty());
  assert_true(f.is_ready(f.submit({{out, SIMPLER_TAG_INPUT}})));  // still there
  f.end();
}

void a_task_with_more_arguments_than_fit_is_refused_with_the_numbers(void **) {
  Fixture f(4);
  const ErrorInfo error = error_of([&] { f.engine->open(3 << 20, {}, nullptr); });
  assert_int_equal(error.code, SIMPLER_CAPACITY_ARGUMENTS);
  assert_non_null(strstr(error.message.c_str(), "3145728 bytes; at most 2097152"));
  for (int i = 0; i < 10; i++) {  // payloads of a quarter of the ring stream
    TaskSlot *task = f.engine->open(600 << 10, {}, nullptr);
    memset(task->payload, i, 600 << 10);
    if (f.engine->commit(*task)) f.ready.push_back(task);
  }
  assert_int_equal(f.end().done, 10);
}

void limits_of_a_run_apply_to_that_run(void **) {
  Fixture f(64, 4096);
  f.end();
  f.begin({4, 128});
  f.produce(64);
  f.produce(64);
  assert_int_equal(error_of([&] { f.produce(64); }).code, SIMPLER_DEADLOCK_HEAP);
  f.end();
  f.begin();
  for (int i = 0; i < 60; i++) f.produce(64);
  f.end();
}

// ---- failure and stop -----------------------------------------------------------------------------------------------

void P70_a_failed_task_skips_its_dependents_and_nobody_else(void **) {
  Fixture f;
  TaskSlot *bad = f.submit({{bytes_at(0, 64), SIMPLER_TAG_INOUT}});
  for (int i = 0; i < 10; i++) f.submit({{bytes_at(0, 64), SIMPLER_TAG_INOUT}});
  for (int i = 0; i < 10; i++) f.submit({{bytes_at(64, 64), SIMPLER_TAG_INOUT}});
  f.run(bad, Outcome::kFailed);
  f.submit({{bytes_at(0, 64), SIMPLER_TAG_INPUT}});  // submitted after the failure
  f.submit({}, {bad->id});
  const RunStatistics s = f.end();
  assert_int_equal(s.failed, 1);
  assert_int_equal(s.skipped, 12);
  assert_int_equal(s.done, 10);
}

void a_failure_is_passed_on_also_when_the_task_has_long_left_its_slot(void **) {
  Fixture f(4);
  TaskSlot *bad = f.submit({{bytes_at(0, 64), SIMPLER_TAG_INOUT}});
  const TaskId bad_id = bad->id;
  f.run(bad, Outcome::kFailed);
  for (int i = 0; i < 5000; i++) f.submit({{bytes_at(64 + (i % 100) * 64, 64), SIMPLER_TAG_INOUT}});
  f.submit({{bytes_at(0, 64), SIMPLER_TAG_INPUT}});
  f.submit({}, {bad_id});
  const RunStatistics s = f.end();
  assert_int_equal(s.done, 5000);
  assert_int_equal(s.skipped, 2);
}

void a_long_chain_of_skipped_tasks_does_not_recurse(void **) {
  Fixture f(65536);
  TaskSlot *bad = f.submit({{bytes_at(0, 64), SIMPLER_TAG_INOUT}});
  for (int i = 0; i < 60000; i++) f.submit({{bytes_at(0, 64), SIMPLER_TAG_INOUT}});
  f.run(bad, Outcome::kFailed);
  assert_int_equal(f.end().skipped, 60000);
}

void stop_ends_admission_and_wakes_a_blocked_submitter(void **) {
  Fixture f(4);
  f.help_runs = false;
  for (int i = 0; i < 4; i++) f.submit({{bytes_at(0, 64), SIMPLER_TAG_INOUT}});
  std::thread other([&] { f.engine->stop(); });
  assert_null(f.engine->open(0, {}, nullptr));
  other.join();
  f.help_runs = true;
  f.end();
  f.begin();
  assert_non_null(f.submit({}));
  f.end();
}

void an_abandoned_task_ends_with_its_producers_and_is_not_counted(void **) {
  Fixture f;
  TaskSlot *producer = f.submit({{bytes_at(0, 64), SIMPLER_TAG_INOUT}});
  TaskSlot *task = f.engine->open(0, {}, nullptr);
  f.engine->access(*task, bytes_at(0, 64), SIMPLER_TAG_INPUT);
  f.engine->abandon(*task);
  f.run(producer);
  const RunStatistics s = f.end();
  assert_int_equal(s.submitted, 1);
  assert_int_equal(s.done, 1);
  assert_int_equal(s.skipped, 0);
}

void C14_an_empty_run_ends_at_once(void **) {
  Fixture f;
  for (int i = 0; i < 10000; i++) {
    f.end();
    f.begin();
    f.engine->scope_begin(ScopeMode::kAuto);
    f.engine->scope_end();
  }
  assert_int_equal(f.end().submitted, 0);
}

void the_tensor_map_stays_small_in_an_endless_stream(void **) {
  Fixture f(64);
  for (uint64_t i = 0; i < 200'000; i++) f.submit({{bytes_at((i * 64) % (sizeof arena - 64), 64), SIMPLER_TAG_INOUT}});
  assert_true(f.end().regions_peak < 4096);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      SIMPLER_TEST(a_reader_waits_for_the_writer),
      SIMPLER_TEST(P55_a_writer_waits_for_all_readers_and_readers_for_none_of_each_other),
      SIMPLER_TEST(writers_of_one_region_run_in_order),
      SIMPLER_TEST(P57_disjoint_parts_of_one_tensor_are_independent),
      SIMPLER_TEST(tiles_of_a_matrix_conflict_exactly_when_they_share_an_element),
      SIMPLER_TEST(a_row_conflicts_with_the_column_block_that_it_crosses_only),
      SIMPLER_TEST(P60_views_of_other_shape_meet_in_memory),
      SIMPLER_TEST(an_empty_view_makes_no_edge),
      SIMPLER_TEST(no_dep_waits_for_nothing),
      SIMPLER_TEST(a_task_does_not_wait_for_itself),
      SIMPLER_TEST(P56_retiring_an_older_writer_keeps_the_newer_one),
      SIMPLER_TEST(an_edge_counts_once_per_pair_also_when_the_producer_has_ended),
      SIMPLER_TEST(P46_fan_in_has_no_small_limit),
      SIMPLER_TEST(P27_fan_out_of_thousands_releases_everyone_oldest_first),
      SIMPLER_TEST(a_write_of_a_part_takes_over_that_part_only),
      SIMPLER_TEST(P45_layers_of_rows_and_readers_of_the_whole_have_the_edges_that_they_need),
      SIMPLER_TEST(readers_that_are_over_do_not_slow_down_later_ones),
      SIMPLER_TEST(small_regions_elsewhere_are_not_looked_at_by_a_large_one),
      SIMPLER_TEST(P64_explicit_dependencies_hold_in_any_scope_and_finished_ones_are_satisfied),
      SIMPLER_TEST(a_failed_task_of_an_earlier_run_is_satisfied_too),
      SIMPLER_TEST(explicit_dependencies_on_many_tasks_wait_for_each),
      SIMPLER_TEST(an_explicit_dependency_on_a_task_that_never_was_is_an_error),
      SIMPLER_TEST(a_manual_scope_infers_nothing_but_is_seen_by_later_tasks),
      SIMPLER_TEST(P34_a_graph_larger_than_the_window_streams),
      SIMPLER_TEST(P35_a_scope_that_holds_more_than_the_window_fails_at_once_with_the_numbers),
      SIMPLER_TEST(P36_inner_scopes_have_rings_of_their_own),
      SIMPLER_TEST(scopes_nest_up_to_the_limit_and_say_so_beyond),
      SIMPLER_TEST(P40_an_empty_heap_takes_an_allocation_of_its_full_size),
      SIMPLER_TEST(P42_contents_survive_many_laps_of_the_heap),
      SIMPLER_TEST(P43_an_output_larger_than_the_heap_is_refused_with_the_numbers),
      SIMPLER_TEST(tasks_without_outputs_do_not_freeze_the_heap),
      SIMPLER_TEST(an_output_lives_until_its_scope_and_its_consumers_have_ended),
      SIMPLER_TEST(a_tensor_used_after_its_scope_is_an_error),
      SIMPLER_TEST(heap_bytes_of_an_earlier_run_are_reported_for_zeroing),
      SIMPLER_TEST(outputs_and_allocations_of_no_bytes_own_nothing),
      SIMPLER_TEST(an_allocation_reads_as_zero_where_this_run_has_written),
      SIMPLER_TEST(drain_waits_for_everything_but_what_open_scopes_hold),
      SIMPLER_TEST(a_task_with_more_arguments_than_fit_is_refused_with_the_numbers),
      SIMPLER_TEST(limits_of_a_run_apply_to_that_run),
      SIMPLER_TEST(P70_a_failed_task_skips_its_dependents_and_nobody_else),
      SIMPLER_TEST(a_failure_is_passed_on_also_when_the_task_has_long_left_its_slot),
      SIMPLER_TEST(a_long_chain_of_skipped_tasks_does_not_recurse),
      SIMPLER_TEST(stop_ends_admission_and_wakes_a_blocked_submitter),
      SIMPLER_TEST(an_abandoned_task_ends_with_its_producers_and_is_not_counted),
      SIMPLER_TEST(C14_an_empty_run_ends_at_once),
      SIMPLER_TEST(the_tensor_map_stays_small_in_an_endless_stream),
  };
  return simpler_run_tests(tests);
}
