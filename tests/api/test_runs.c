/* Runs: submit, wait, order, handles, statistics, graphs of many shapes, memory of the runtime.
 * ctest: TIMEOUT 180 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"

/* ---- waiting ---------------------------------------------------------------------------------------------------------- */

/* C14, P134 */
static void C14_a_run_that_submits_nothing_ends_at_once(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *empty = api_register_orchestration(worker, "orch_empty");
  simpler_callable *scopes = api_register_orchestration(worker, "orch_empty_scopes");
  int i;
  for (i = 0; i < 10000; i++) assert_ok(api_run(worker, empty, 0, NULL, 0, NULL, 0, &err));
  for (i = 0; i < 1000; i++) assert_ok(api_run(worker, scopes, 0, NULL, 0, NULL, 0, &err));
}

/* C18 */
static void C18_a_hundred_runs_are_waited_for_in_reverse_order(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callable = api_register_kernel(worker, "fill");
  simpler_buffer *buffer;
  simpler_run *runs[100];
  uint64_t i;
  assert_ok(simpler_buffer_create(worker, 800, &buffer, &err));
  for (i = 0; i < 100; i++) runs[i] = api_submit_buffer(worker, callable, 0, buffer, &i, 1);
  for (i = 100; i > 0; i--) {
    assert_ok(simpler_run_wait(runs[i - 1], SIMPLER_FOREVER, &err));
    assert_int_equal(((uint64_t *)simpler_buffer_data(buffer))[0], 99);
    assert_int_equal(((uint64_t *)simpler_buffer_data(buffer))[99], 99);
  }
  for (i = 0; i < 100; i++) {
    assert_ok(simpler_run_wait(runs[i], 0, &err)); /* the same at each call */
    assert_int_equal(api_stats(runs[i]).state, SIMPLER_RUN_DONE);
    assert_ok(simpler_run_release(runs[i], &err));
  }
}

/* C18: outputs in host memory are in place when the wait says so. */
static void C18_a_finished_run_has_its_outputs_in_place(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callable = api_register_kernel(worker, "fill");
  static uint64_t words[100][500];
  simpler_run *runs[100];
  uint64_t i;
  for (i = 0; i < 100; i++) {
    const uint64_t value = i + 1;
    runs[i] = api_submit(worker, callable, 0, words[i], 500, &value, 1);
  }
  for (i = 100; i > 0; i--) {
    assert_ok(simpler_run_wait(runs[i - 1], SIMPLER_FOREVER, &err));
    assert_int_equal(words[i - 1][0], i);
    assert_int_equal(words[i - 1][499], i);
    assert_ok(simpler_run_release(runs[i - 1], &err));
  }
}

static void a_wait_that_times_out_leaves_the_run_going(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  api_gate gate = api_gate_make(worker);
  simpler_run *run = api_gate_enter(worker, &gate, 0);
  simpler_run *behind = api_submit(worker, api_register_kernel(worker, "nothing"), 0, NULL, 0, NULL, 0);
  uint64_t start;
  assert_fails(SIMPLER_TIMEOUT, "", simpler_run_wait(run, 0, &err));
  start = api_now_ns();
  assert_fails(SIMPLER_TIMEOUT, "", simpler_run_wait(run, 20000000, &err));
  assert_true(api_now_ns() - start >= 20000000);
  assert_int_equal(api_stats(run).state, SIMPLER_RUN_RUNNING);
  assert_int_equal(api_stats(behind).state, SIMPLER_RUN_QUEUED);
  assert_fails(SIMPLER_TIMEOUT, "", simpler_run_wait(behind, 1, &err));
  api_gate_open(&gate);
  assert_ok(simpler_run_wait(run, SIMPLER_FOREVER, &err));
  assert_ok(simpler_run_wait(run, 0, &err));
  assert_int_equal(api_stats(run).state, SIMPLER_RUN_DONE);
  assert_ok(simpler_run_release(run, &err));
  api_finish(behind);
}

static void *wait_on_thread(void *run) { return (void *)(intptr_t)simpler_run_wait(run, SIMPLER_FOREVER, NULL); }

static void several_threads_wait_for_one_run(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  api_gate gate = api_gate_make(worker);
  simpler_run *run = api_gate_enter(worker, &gate, 0);
  pthread_t threads[6];
  void *status;
  int i;
  for (i = 0; i < 6; i++) pthread_create(&threads[i], NULL, wait_on_thread, run);
  api_gate_open(&gate);
  for (i = 0; i < 6; i++) {
    pthread_join(threads[i], &status);
    assert_int_equal((intptr_t)status, SIMPLER_OK);
  }
  assert_ok(simpler_run_release(run, &err));
}

/* Released while another thread waits on it: the waiter may get its answer or INVALID_HANDLE, but gets one. */
static void release_while_another_thread_waits(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  int round;
  for (round = 0; round < 50; round++) {
    api_gate gate = api_gate_make(worker);
    simpler_run *run = api_gate_enter(worker, &gate, 0);
    pthread_t thread;
    void *status;
    pthread_create(&thread, NULL, wait_on_thread, run);
    assert_ok(simpler_run_release(run, &err));
    api_gate_open(&gate);
    pthread_join(thread, &status);
    assert_true((intptr_t)status == SIMPLER_OK || (intptr_t)status == SIMPLER_INVALID_HANDLE);
    assert_ok(simpler_worker_unregister(worker, gate.callable, &err));
  }
}

static void a_run_goes_on_without_its_handle(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *increment = api_register_kernel(worker, "increment");
  simpler_buffer *buffer;
  int i;
  assert_ok(simpler_buffer_create(worker, 8, &buffer, &err));
  for (i = 0; i < 100; i++) {
    assert_ok(simpler_run_release(api_submit_buffer(worker, increment, 0, buffer, NULL, 0), &err));
  }
  api_finish(api_submit_buffer(worker, increment, 0, buffer, NULL, 0));
  assert_int_equal(*(uint64_t *)simpler_buffer_data(buffer), 101);
}

/* C30 */
static void C30_released_runs_are_refused(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_run *run = api_submit(worker, api_register_kernel(worker, "nothing"), 0, NULL, 0, NULL, 0);
  simpler_run_stats stats = SIMPLER_RUN_STATS_INIT;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "stats", simpler_run_get_stats(run, NULL, &err));
  api_finish(run);
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_run_wait(run, 0, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_run_get_stats(run, &stats, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_run_release(run, &err));
  assert_ok(simpler_run_release(NULL, &err));
}

/* ---- chips -------------------------------------------------------------------------------------------------------------- */

static void runs_on_two_chips_overlap(void **state) {
  simpler_worker *worker = api_start(*state, 2);
  api_gate first = api_gate_make(worker), second = api_gate_make(worker);
  simpler_run *a = api_gate_enter(worker, &first, 0), *b = api_gate_enter(worker, &second, 1); /* both run now */
  api_gate_open(&second);
  api_finish(b);
  assert_int_equal(simpler_run_wait(a, 0, NULL), SIMPLER_TIMEOUT);
  api_gate_open(&first);
  api_finish(a);
}

static void any_chip_is_the_one_with_the_fewest_runs(void **state) {
  simpler_worker *worker = api_start(*state, 3);
  simpler_callable *nothing = api_register_kernel(worker, "nothing");
  api_gate gates[2] = {api_gate_make(worker), api_gate_make(worker)};
  simpler_run *at_gate[2] = {api_gate_enter(worker, &gates[0], 0), api_gate_enter(worker, &gates[1], 2)};
  int i;
  for (i = 0; i < 5; i++) {
    simpler_run *run = api_submit(worker, nothing, SIMPLER_CHIP_ANY, NULL, 0, NULL, 0);
    assert_ok(simpler_run_wait(run, SIMPLER_FOREVER, &err));
    assert_int_equal(api_stats(run).chip, 1);
    assert_ok(simpler_run_release(run, &err));
  }
  for (i = 0; i < 2; i++) {
    api_gate_open(&gates[i]);
    api_finish(at_gate[i]);
  }
}

typedef struct runner {
  simpler_worker *worker;
  simpler_callable *callable;
  int32_t chip;
  int rounds, wrong;
  simpler_status status;
} runner;

static void *run_on_thread(void *argument) {
  runner *r = argument;
  int i;
  for (i = 0; i < r->rounds && r->status == SIMPLER_OK; i++) {
    uint64_t words[100];
    memset(words, 0, sizeof words);
    r->status = api_run(r->worker, r->callable, r->chip, words, 100, NULL, 0, NULL);
    r->wrong += words[0] != 3 || words[99] != 3;
  }
  return NULL;
}

static void four_threads_run_on_two_chips(void **state) {
  simpler_worker *worker = api_start(*state, 2);
  simpler_callable *callable = api_register(worker, "add_3");
  runner runners[4];
  pthread_t threads[4];
  int i;
  for (i = 0; i < 4; i++) {
    const runner r = {worker, callable, i < 2 ? i : SIMPLER_CHIP_ANY, 300, 0, SIMPLER_OK};
    runners[i] = r;
    pthread_create(&threads[i], NULL, run_on_thread, &runners[i]);
  }
  for (i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  for (i = 0; i < 4; i++) {
    assert_string_equal(simpler_status_name(runners[i].status), "OK");
    assert_int_equal(runners[i].wrong, 0);
  }
}

/* P14, P133: one worker, many runs; nothing grows. */
static void P133_many_runs_leave_nothing_behind(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callable = api_register_kernel(worker, "increment");
  simpler_buffer *buffer;
  simpler_tensor_arg tensor;
  simpler_task task;
  simpler_test_snapshot *before;
  const int runs = api_is_sanitized() ? 3000 : 20000;
  int i;
  assert_ok(simpler_buffer_create(worker, 8, &buffer, &err));
  tensor = api_buffer_words(buffer);
  task = api_task(callable, 0, &tensor, 1, NULL, 0);
  assert_ok(simpler_worker_run(worker, &task, NULL, &err));
  before = simpler_test_snapshot_take();
  for (i = 1; i < runs; i++) assert_ok(simpler_worker_run(worker, &task, NULL, &err));
  assert_int_equal(simpler_test_snapshot_check(before, "many runs"), 0);
  assert_int_equal(*(uint64_t *)simpler_buffer_data(buffer), runs);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------------- */

typedef struct graph {
  uint64_t tasks, edges;
} graph;

/* Runs an orchestration on words, checks the counts, returns with the words updated. */
static void run_graph(simpler_worker *worker, const char *orchestration, const simpler_tensor_arg *tensor,
                      const uint64_t *scalars, uint32_t scalar_count, graph expected) {
  simpler_callable *callable = api_register_orchestration(worker, orchestration);
  const simpler_task task = api_task(callable, 0, tensor, 1, scalars, scalar_count);
  simpler_run *run;
  simpler_run_stats stats;
  assert_ok(simpler_worker_submit(worker, &task, NULL, &run, &err));
  assert_ok(simpler_run_wait(run, SIMPLER_FOREVER, &err));
  stats = api_stats(run);
  assert_int_equal(stats.tasks_submitted, expected.tasks);
  assert_int_equal(stats.tasks_done, expected.tasks);
  assert_int_equal(stats.tasks_failed, 0);
  assert_int_equal(stats.tasks_skipped, 0);
  assert_int_equal(stats.dependencies, expected.edges);
  assert_true(expected.tasks == 0 || stats.window_peak >= 1);
  assert_ok(simpler_run_release(run, &err));
  assert_ok(simpler_worker_unregister(worker, callable, &err));
}

/* C09, C11 */
static void C09_chains_run_in_order(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  static const uint64_t lengths[] = {0, 1, 2, 100, 10000};
  size_t i;
  for (i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    const uint64_t n = lengths[i];
    uint64_t word = 7;
    const simpler_tensor_arg tensor = api_words(&word, 1);
    const graph expected = {n, n > 0 ? n - 1 : 0};
    run_graph(worker, "orch_chain", &tensor, &n, 1, expected);
    assert_int_equal(word, 7 + n);
  }
}

/* P24: every task exactly once. */
static void P24_independent_tasks_run_once_each(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  const uint64_t n = 10000;
  uint64_t *words = calloc(n, sizeof *words), i, wrong = 0;
  const simpler_tensor_arg tensor = api_words(words, n);
  const graph expected = {n, 0};
  run_graph(worker, "orch_independent", &tensor, &n, 1, expected);
  for (i = 0; i < n; i++) wrong += words[i] != 1;
  assert_int_equal(wrong, 0);
  free(words);
}

static void grids_run_as_wavefronts(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  const uint64_t scalars[2] = {30, 40};
  uint64_t words[30 * 40], expected[30 * 40], r, c;
  const simpler_tensor_arg tensor = simpler_tensor_arg_make(words, SIMPLER_TAG_INOUT, SIMPLER_DTYPE_UINT64, 2, scalars);
  const graph counts = {1200, 2 * 1200 - 30 - 40};
  run_graph(worker, "orch_grid", &tensor, scalars, 2, counts);
  for (r = 0; r < 30; r++) {
    for (c = 0; c < 40; c++) {
      expected[r * 40 + c] = 1 + (r > 0 ? expected[(r - 1) * 40 + c] : 0) + (c > 0 ? expected[r * 40 + c - 1] : 0);
    }
  }
  assert_memory_equal(words, expected, sizeof words);
}

static void fans_join_again(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  const uint64_t scalars[2] = {100, 1};
  uint64_t words[101] = {0}, i;
  const simpler_tensor_arg tensor = api_words(words, 101);
  const graph expected = {102, 201}; /* 100 out, 100 in, and the last writes what the first wrote */
  run_graph(worker, "orch_fan", &tensor, scalars, 2, expected);
  for (i = 0; i < 101; i++) assert_int_equal(words[i], 1);
}

/* P27, P46: fan-out and fan-in without a small hidden limit. */
static void P46_wide_fans_are_right(void **state) {
  simpler_worker_options options = api_options(*state, 1);
  static const uint64_t widths[] = {1, 15, 16, 17, 24, 64, 65, 128, 129, 1000, 5000};
  simpler_worker *worker;
  size_t k;
  options.window = 8192;
  worker = api_start_with(*state, &options);
  for (k = 0; k < sizeof widths / sizeof widths[0]; k++) {
    const uint64_t scalars[2] = {widths[k], 1};
    uint64_t *words = calloc(widths[k] + 1, sizeof *words), i, wrong = 0;
    const simpler_tensor_arg tensor = api_words(words, widths[k] + 1);
    const graph expected = {widths[k] + 2, 2 * widths[k] + 1};
    run_graph(worker, "orch_fan", &tensor, scalars, 2, expected);
    for (i = 0; i <= widths[k]; i++) wrong += words[i] != 1;
    assert_int_equal(wrong, 0);
    free(words);
  }
}

/* P34: a graph far larger than its window streams through it. */
static void P34_large_graphs_stream_through_a_small_window(void **state) {
  simpler_worker_options options = api_options(*state, 1);
  simpler_worker *worker;
  simpler_callable *callable;
  const uint64_t scalars[3] = {api_is_sanitized() ? 5000 : 50000, 100, 1};
  uint64_t word = 0;
  simpler_run *run;
  options.window = 64;
  options.heap_bytes = 64 << 10;
  worker = api_start_with(*state, &options);
  callable = api_register_orchestration(worker, "orch_outputs");
  run = api_submit(worker, callable, 0, &word, 1, scalars, 3);
  assert_ok(simpler_run_wait(run, SIMPLER_FOREVER, &err));
  assert_int_equal(word, scalars[0]);
  assert_int_equal(api_stats(run).tasks_done, 2 * scalars[0]);
  assert_in_range(api_stats(run).window_peak, 1, 64);
  assert_in_range(api_stats(run).heap_bytes_peak, 800, 64 << 10);
  assert_ok(simpler_run_release(run, &err));
}

/* P42: the heap ring wraps round many times with blocks that do not divide it. */
static void P42_the_heap_ring_wraps_round(void **state) {
  simpler_worker_options options = api_options(*state, 1);
  simpler_worker *worker;
  const uint64_t scalars[2] = {2000, 1170}; /* 9,360 bytes of 65,536: a seventh */
  uint64_t word = 0;
  options.heap_bytes = 64 << 10;
  worker = api_start_with(*state, &options);
  assert_ok(api_run(worker, api_register_orchestration(worker, "orch_alloc"), 0, &word, 1, scalars, 2, &err));
  assert_int_equal(word, 2000);
}

/* P40: an empty heap serves a request of its whole size, wherever its ends stand. */
static void P40_an_empty_heap_serves_all_of_it(void **state) {
  simpler_worker_options options = api_options(*state, 1);
  simpler_worker *worker;
  simpler_callable *callable;
  const uint64_t part[2] = {1, 4900}, whole[2] = {3, 8192};
  uint64_t word = 0;
  options.heap_bytes = 64 << 10;
  worker = api_start_with(*state, &options);
  callable = api_register_orchestration(worker, "orch_alloc");
  assert_ok(api_run(worker, callable, 0, &word, 1, part, 2, &err));
  assert_ok(api_run(worker, callable, 0, &word, 1, whole, 2, &err));
  assert_int_equal(word, 4);
}

/* P36: no small limit on nesting. */
static void P36_scopes_nest_deeply(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  static const uint64_t depths[] = {8, 64, 65, 200};
  size_t i;
  for (i = 0; i < sizeof depths / sizeof depths[0]; i++) {
    uint64_t word = 0;
    const simpler_tensor_arg tensor = api_words(&word, 1);
    const graph expected = {depths[i], depths[i] - 1};
    run_graph(worker, "orch_scopes", &tensor, &depths[i], 1, expected);
    assert_int_equal(word, depths[i]);
  }
}

static void run_options_make_rings_smaller(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callable = api_register_orchestration(worker, "orch_outputs");
  const uint64_t scalars[3] = {1000, 64, 1};
  uint64_t word = 0;
  const simpler_tensor_arg tensor = api_words(&word, 1);
  const simpler_task task = api_task(callable, 0, &tensor, 1, scalars, 3);
  simpler_run_options options = SIMPLER_RUN_OPTIONS_INIT;
  simpler_run *run;
  options.window = 8;
  options.heap_bytes = 8192;
  options.label = "small rings";
  assert_ok(simpler_worker_submit(worker, &task, &options, &run, &err));
  assert_ok(simpler_run_wait(run, SIMPLER_FOREVER, &err));
  assert_in_range(api_stats(run).window_peak, 1, 8);
  assert_in_range(api_stats(run).heap_bytes_peak, 1, 8192);
  assert_int_equal(word, 1000);
  assert_ok(simpler_run_release(run, &err));
  assert_ok(simpler_worker_submit(worker, &task, NULL, &run, &err)); /* the next run has the worker's again */
  api_finish(run);
}

static void times_are_reported(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *slow = api_register_kernel(worker, "slow");
  const uint64_t ns = 20000000;
  simpler_run *first = api_submit(worker, slow, 0, NULL, 0, &ns, 1), *second = api_submit(worker, slow, 0, NULL, 0, &ns, 1);
  assert_ok(simpler_run_wait(second, SIMPLER_FOREVER, &err));
  assert_ok(simpler_run_wait(first, 0, &err)); /* runs on one chip go in the order of submission */
  assert_in_range(api_stats(first).running_ns, ns, 60000000000u);
  assert_in_range(api_stats(second).running_ns, ns, 60000000000u);
  assert_in_range(api_stats(second).queued_ns, ns / 2, 60000000000u);
  assert_ok(simpler_run_release(first, &err));
  assert_ok(simpler_run_release(second, &err));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      API_TEST_BOTH(C14_a_run_that_submits_nothing_ends_at_once),
      API_TEST_BOTH(C18_a_hundred_runs_are_waited_for_in_reverse_order),
      API_TEST_BOTH(C18_a_finished_run_has_its_outputs_in_place),
      API_TEST_BOTH(a_wait_that_times_out_leaves_the_run_going),
      API_TEST_BOTH(several_threads_wait_for_one_run),
      API_TEST_BOTH(release_while_another_thread_waits),
      API_TEST_BOTH(a_run_goes_on_without_its_handle),
      API_TEST_BOTH(C30_released_runs_are_refused),
      API_TEST_BOTH(runs_on_two_chips_overlap),
      API_TEST_BOTH(any_chip_is_the_one_with_the_fewest_runs),
      API_TEST_BOTH(four_threads_run_on_two_chips),
      API_TEST_BOTH(P133_many_runs_leave_nothing_behind),
      API_TEST_BOTH(C09_chains_run_in_order),
      API_TEST_BOTH(P24_independent_tasks_run_once_each),
      API_TEST_BOTH(grids_run_as_wavefronts),
      API_TEST_BOTH(fans_join_again),
      API_TEST_BOTH(P46_wide_fans_are_right),
      API_TEST_BOTH(P34_large_graphs_stream_through_a_small_window),
      API_TEST_BOTH(P42_the_heap_ring_wraps_round),
      API_TEST_BOTH(P40_an_empty_heap_serves_all_of_it),
      API_TEST_BOTH(P36_scopes_nest_deeply),
      API_TEST_BOTH(run_options_make_rings_smaller),
      API_TEST_BOTH(times_are_reported),
  };
  return api_run_tests(tests);
}
