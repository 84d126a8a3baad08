/* What goes wrong on chips: kernels and orchestrations that fail, rings that are too small, processes that die.
 * ctest: TIMEOUT 180 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../callables/work.h"
#include "api.h"

static void check_works(simpler_worker *worker, int32_t chip) {
  simpler_callable *callable = api_register(worker, "add_1");
  uint64_t word = 1;
  assert_ok(api_run(worker, callable, chip, &word, 1, NULL, 0, &err));
  assert_int_equal(word, 2);
  assert_ok(simpler_worker_unregister(worker, callable, &err));
}

/* ---- kernels that fail ------------------------------------------------------------------------------------------------- */

/* P110 */
static void P110_a_failing_kernel_fails_one_run_with_all_particulars(void **state) {
  simpler_worker *worker = api_start(*state, 3);
  simpler_callable *callable = api_register_orchestration(worker, "orch_failing_task");
  const uint64_t code = 42;
  simpler_buffer *buffer;
  simpler_run *run;
  simpler_run_stats stats;
  simpler_error *error = NULL;
  uint64_t *words;
  int32_t chip;
  assert_ok(simpler_buffer_create(worker, 4 * 8, &buffer, &err));
  words = simpler_buffer_data(buffer);
  run = api_submit_buffer(worker, callable, 1, buffer, &code, 1);
  assert_int_equal(simpler_run_wait(run, SIMPLER_FOREVER, &error), SIMPLER_KERNEL_FAILED);
  assert_int_equal(simpler_error_code(error), SIMPLER_KERNEL_FAILED);
  assert_int_equal(simpler_error_chip(error), 1);
  assert_int_equal(simpler_error_user_code(error), 42);
  assert_int_equal(simpler_error_kernel(error), 0x80000001u);
  assert_string_equal(simpler_error_callable(error), "orch_failing_task");
  assert_string_equal(simpler_error_task_label(error), "the broken one");
  assert_int_not_equal(simpler_error_task(error), 0);
  assert_int_equal(simpler_error_pid(error), 0);
  assert_int_equal(simpler_error_signal(error), 0);
  assert_message(error, "failing on purpose");
  assert_message(error, "42");
  simpler_error_free(error);

  /* What depends on it does not run, the rest does. */
  stats = api_stats(run);
  assert_int_equal(stats.state, SIMPLER_RUN_FAILED);
  assert_int_equal(stats.tasks_submitted, stats.tasks_done + stats.tasks_failed + stats.tasks_skipped);
  assert_int_equal(stats.tasks_failed, 1);
  if (stats.tasks_submitted == 6) assert_int_equal(stats.tasks_skipped, 2);
  assert_int_equal(words[0], 77);
  assert_fails(SIMPLER_KERNEL_FAILED, "failing on purpose", simpler_run_wait(run, 0, &err)); /* the same at each call */
  assert_ok(simpler_run_release(run, &err));
  for (chip = 0; chip < 3; chip++) check_works(worker, chip);
}

static void a_failed_single_kernel_names_its_callable(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  const uint64_t code = (uint64_t)(int64_t)-5;
  simpler_error *error = NULL;
  uint64_t word = 3;
  assert_int_equal(api_run(worker, api_register_kernel(worker, "fail"), 0, &word, 1, &code, 1, &error),
                   SIMPLER_KERNEL_FAILED);
  assert_int_equal(simpler_error_user_code(error), -5);
  assert_string_equal(simpler_error_callable(error), "fail");
  simpler_error_free(error);
  assert_int_equal(word, 3);
  check_works(worker, 0);
}

static void a_run_behind_a_failed_one_is_not_harmed(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *fail = api_register_kernel(worker, "fail"), *increment = api_register_kernel(worker, "increment");
  simpler_run *runs[40];
  uint64_t words[40] = {0};
  int i;
  for (i = 0; i < 40; i++) runs[i] = api_submit(worker, i % 2 == 0 ? fail : increment, 0, &words[i], 1, NULL, 0);
  for (i = 0; i < 40; i++) {
    assert_int_equal(simpler_run_wait(runs[i], SIMPLER_FOREVER, NULL), i % 2 == 0 ? SIMPLER_KERNEL_FAILED : SIMPLER_OK);
    assert_int_equal(words[i], i % 2);
    assert_ok(simpler_run_release(runs[i], &err));
  }
}

/* ---- orchestrations that fail ------------------------------------------------------------------------------------------- */

/* P96 */
static void P96_a_failing_orchestration_gives_code_and_text(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callable = api_register_orchestration(worker, "orch_fail");
  const uint64_t code = 42;
  simpler_buffer *buffer;
  simpler_run *run;
  simpler_error *error = NULL;
  assert_ok(simpler_buffer_create(worker, 64, &buffer, &err));
  run = api_submit_buffer(worker, callable, 0, buffer, &code, 1);
  assert_int_equal(simpler_run_wait(run, SIMPLER_FOREVER, &error), SIMPLER_ORCHESTRATION_FAILED);
  assert_int_equal(simpler_error_user_code(error), 42);
  assert_int_equal(simpler_error_chip(error), 0);
  assert_string_equal(simpler_error_callable(error), "orch_fail");
  assert_message(error, "failing on purpose");
  simpler_error_free(error);
  assert_int_equal(*(uint64_t *)simpler_buffer_data(buffer), 0); /* every later call said so and did nothing */
  assert_int_equal(api_stats(run).tasks_submitted, 0);
  assert_ok(simpler_run_release(run, &err));
  check_works(worker, 0);
}

static void tasks_of_a_failing_orchestration_end_first(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  const uint64_t code = 3;
  simpler_buffer *buffer;
  simpler_run *run;
  simpler_run_stats stats;
  assert_ok(simpler_buffer_create(worker, 64, &buffer, &err));
  run = api_submit_buffer(worker, api_register_orchestration(worker, "orch_fail_later"), 0, buffer, &code, 1);
  assert_fails(SIMPLER_ORCHESTRATION_FAILED, "failing on purpose", simpler_run_wait(run, SIMPLER_FOREVER, &err));
  stats = api_stats(run);
  assert_int_equal(stats.tasks_submitted, 10);
  assert_int_equal(*(uint64_t *)simpler_buffer_data(buffer), stats.tasks_done);
  assert_ok(simpler_run_release(run, &err));
  assert_ok(simpler_buffer_release(buffer, &err)); /* nobody uses it any more */
}

static void a_returned_number_fails_the_run(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callable = api_register_orchestration(worker, "orch_return");
  static const int32_t codes[] = {1, -1, 98, INT32_MAX, INT32_MIN};
  uint64_t word = 0, zero = 0;
  size_t i;
  assert_ok(api_run(worker, callable, 0, &word, 1, &zero, 1, &err));
  for (i = 0; i < sizeof codes / sizeof codes[0]; i++) {
    const uint64_t scalar = (uint64_t)(int64_t)codes[i];
    simpler_error *error = NULL;
    assert_int_equal(api_run(worker, callable, 0, &word, 1, &scalar, 1, &error), SIMPLER_ORCHESTRATION_FAILED);
    assert_int_equal(simpler_error_user_code(error), codes[i]);
    simpler_error_free(error);
  }
  check_works(worker, 0);
}

/* An error that the orchestration does not hand on fails the run all the same. */
static void an_ignored_failure_fails_the_run(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  uint64_t word = 0;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "12345",
               api_run(worker, api_register_orchestration(worker, "orch_return_failed"), 0, &word, 1, NULL, 0, &err));
  check_works(worker, 0);
}

static void exceptions_of_orchestrations_fail_the_run(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callable;
  api_desc d;
  int i;
  for (i = 0; i < 3; i++) {
    uint64_t word = 0;
    assert_ok(simpler_worker_register(worker, api_describe_orchestration(&d, "work_cxx", "orch_throws"), &callable, &err));
    assert_fails(SIMPLER_ORCHESTRATION_FAILED, "thrown on purpose", api_run(worker, callable, 0, &word, 1, NULL, 0, &err));
    assert_ok(simpler_worker_unregister(worker, callable, &err));
    assert_ok(
        simpler_worker_register(worker, api_describe_orchestration(&d, "work_cxx", "orch_throws_number"), &callable, &err));
    assert_fails(SIMPLER_ORCHESTRATION_FAILED, "exception", api_run(worker, callable, 0, &word, 1, NULL, 0, &err));
    assert_ok(simpler_worker_unregister(worker, callable, &err));
  }
  check_works(worker, 0);
}

static void an_unclosed_scope_fails_the_run(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  uint64_t word = 0;
  int i;
  for (i = 0; i < 3; i++) {
    assert_fails(SIMPLER_ORCHESTRATION_FAILED, "scope",
                 api_run(worker, api_register_orchestration(worker, "orch_unclosed"), 0, &word, 1, NULL, 0, &err));
  }
  check_works(worker, 0);
}

/* Mistakes fail the run with function and argument, and never the chip. */
static void mistakes_name_function_and_argument(void **state) {
  static const struct {
    enum work_mistake mistake;
    const char *part[2];
  } mistakes[] = {
      {WORK_MISTAKE_NULL_TASK, {"submit", "task"}},
      {WORK_MISTAKE_UNKNOWN_KERNEL, {"submit", "777"}},
      {WORK_MISTAKE_ZERO_BLOCKS, {"submit", "block_count"}},
      {WORK_MISTAKE_NULL_TENSOR, {"submit", "tensor"}},
      {WORK_MISTAKE_TAG, {"submit", "tag"}},
      {WORK_MISTAKE_RANK, {"submit", "rank"}},
      {WORK_MISTAKE_SLICE, {"submit", "rank"}},
      {WORK_MISTAKE_DTYPE, {"submit", "dtype"}},
      {WORK_MISTAKE_OUTSIDE, {"submit", "tensor"}},
      {WORK_MISTAKE_FUTURE_TASK, {"submit", "after"}},
      {WORK_MISTAKE_SCOPE_END, {"scope_end", "scope"}},
      {WORK_MISTAKE_ALLOC_NULL, {"alloc", "tensor"}},
  };
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callable = api_register_orchestration(worker, "orch_mistake");
  size_t i;
  for (i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
    const uint64_t scalar = mistakes[i].mistake;
    uint64_t words[4] = {0};
    simpler_error *error = NULL;
    const simpler_status status = api_run(worker, callable, 0, words, 4, &scalar, 1, &error);
    print_message("mistake %d: %s: %s\n", (int)scalar, simpler_status_name(status), simpler_error_message(error));
    assert_true(status == SIMPLER_INVALID_ARGUMENT || status == SIMPLER_ORCHESTRATION_FAILED);
    assert_message(error, mistakes[i].part[0]);
    assert_message(error, mistakes[i].part[1]);
    assert_string_equal(simpler_error_callable(error), "orch_mistake");
    simpler_error_free(error);
    assert_int_equal(words[0], 0);
  }
  check_works(worker, 0);
}

/* ---- rings that are too small --------------------------------------------------------------------------------------------- */

static void expect_capacity_error(simpler_worker *worker, simpler_callable *callable, const uint64_t *scalars,
                                  simpler_status expected, const char *option, const char *number) {
  const uint64_t start = api_now_ns();
  uint64_t word = 5;
  simpler_error *error = NULL;
  const simpler_status status = api_run(worker, callable, 0, &word, 1, scalars, 3, &error);
  print_message("%s: %s\n", simpler_status_name(status), simpler_error_message(error));
  assert_string_equal(simpler_status_name(status), simpler_status_name(expected));
  assert_message(error, option);
  assert_message(error, number);
  simpler_error_free(error);
  assert_true(api_now_ns() - start < api_patience_ns(2000000000u));
  assert_int_equal(word, 5);
}

/* P35, P136: proven at once, named, and the worker is as good as before. */
static void P35_a_scope_larger_than_the_window_is_a_deadlock_by_name(void **state) {
  simpler_worker_options options = api_options(*state, 1);
  const uint64_t too_many[3] = {8, 16, 0}, good[3] = {8, 16, 1};
  simpler_worker *worker;
  simpler_callable *callable;
  int i;
  options.window = 4;
  worker = api_start_with(*state, &options);
  callable = api_register_orchestration(worker, "orch_outputs");
  for (i = 0; i < 5; i++) {
    uint64_t word = 5;
    expect_capacity_error(worker, callable, too_many, SIMPLER_DEADLOCK_WINDOW, "window", "4");
    assert_ok(api_run(worker, callable, 0, &word, 1, good, 3, &err));
    assert_int_equal(word, 13);
  }
  check_works(worker, 0);
}

/* P43 */
static void P43_an_output_larger_than_the_heap_is_refused_with_numbers(void **state) {
  simpler_worker_options options = api_options(*state, 1);
  const uint64_t too_large[3] = {1, 4096, 1}, good[3] = {10, 512, 1};
  simpler_worker *worker;
  simpler_callable *callable;
  int i;
  options.heap_bytes = 4096;
  worker = api_start_with(*state, &options);
  callable = api_register_orchestration(worker, "orch_outputs");
  for (i = 0; i < 3; i++) {
    uint64_t word = 0;
    expect_capacity_error(worker, callable, too_large, SIMPLER_CAPACITY_HEAP, "heap_bytes", "4096");
    expect_capacity_error(worker, callable, too_large, SIMPLER_CAPACITY_HEAP, "heap_bytes", "32768");
    assert_ok(api_run(worker, callable, 0, &word, 1, good, 3, &err));
    assert_int_equal(word, 10);
  }
}

/* P43, P120: each fits, together they do not, and the scope that holds them is open. */
static void P43_a_scope_larger_than_the_heap_is_a_deadlock_by_name(void **state) {
  simpler_worker_options options = api_options(*state, 1);
  const uint64_t too_much[3] = {8, 256, 0}, good[3] = {8, 256, 1};
  simpler_worker *worker;
  simpler_callable *callable;
  uint64_t word = 0;
  options.heap_bytes = 8192;
  worker = api_start_with(*state, &options);
  callable = api_register_orchestration(worker, "orch_outputs");
  expect_capacity_error(worker, callable, too_much, SIMPLER_DEADLOCK_HEAP, "heap_bytes", "8192");
  assert_ok(api_run(worker, callable, 0, &word, 1, good, 3, &err));
  assert_int_equal(word, 8);
  check_works(worker, 0);
}

/* ---- processes that die ----------------------------------------------------------------------------------------------------- */

static void check_chip_lost(simpler_worker *worker, int32_t chip, int64_t pid, simpler_error *error, int signal_number) {
  print_message("%s: %s\n", simpler_status_name(simpler_error_code(error)), simpler_error_message(error));
  assert_true(simpler_error_code(error) == SIMPLER_CHIP_LOST || simpler_error_code(error) == SIMPLER_KERNEL_CRASHED);
  assert_int_equal(simpler_error_chip(error), chip);
  assert_int_equal(simpler_error_pid(error), pid);
  if (signal_number != 0 && !api_is_sanitized()) {
    char text[64];
    assert_int_equal(simpler_error_signal(error), signal_number);
    snprintf(text, sizeof text, "signal %d", signal_number);
    assert_message(error, text);
  }
  (void)worker;
}

/* After chip 1 of 3 is gone: its users are told at once, the others go on, and any chip means any that lives. */
static void check_others_go_on(simpler_worker *worker, simpler_callable *callable) {
  const simpler_task task = api_task(callable, 1, NULL, 0, NULL, 0);
  const uint64_t start = api_now_ns();
  simpler_error *error = NULL;
  uint64_t word = 0;
  int i;
  assert_int_equal(simpler_worker_run(worker, &task, NULL, &error), SIMPLER_CHIP_LOST);
  assert_int_equal(simpler_error_chip(error), 1);
  simpler_error_free(error);
  assert_true(api_now_ns() - start < api_patience_ns(500000000));
  for (i = 0; i < 10; i++) {
    assert_ok(api_run(worker, callable, 0, &word, 1, NULL, 0, &err));
    assert_ok(api_run(worker, callable, 2, &word, 1, NULL, 0, &err));
    assert_ok(api_run(worker, callable, SIMPLER_CHIP_ANY, &word, 1, NULL, 0, &err));
  }
  assert_int_equal(word, 30);
  assert_ok(simpler_worker_unregister(worker, callable, &err));
  assert_ok(simpler_worker_destroy(worker, &err));
}

static void die_in(void *state, const char *kernel, const char *orchestration, int signal_number, const char *part) {
  simpler_worker *worker = api_start(state, 3);
  simpler_callable *fatal =
      kernel != NULL ? api_register_kernel(worker, kernel) : api_register_orchestration(worker, orchestration);
  simpler_callable *increment = api_register_kernel(worker, "increment");
  const int64_t pid = api_chip_pid(worker, 1);
  api_gate gate = api_gate_make(worker);
  simpler_run *before = api_gate_enter(worker, &gate, 1); /* holds the chip until both runs are queued */
  uint64_t words[2] = {11, 12};
  simpler_run *run = api_submit(worker, fatal, 1, &words[0], 1, NULL, 0);
  simpler_run *behind = api_submit(worker, increment, 1, &words[1], 1, NULL, 0);
  simpler_error *error = NULL;
  const uint64_t start = api_now_ns();
  api_gate_open(&gate);
  api_finish(before);
  assert_int_not_equal(simpler_run_wait(run, SIMPLER_FOREVER, &error), SIMPLER_OK);
  check_chip_lost(worker, 1, pid, error, signal_number);
  assert_message(error, part);
  simpler_error_free(error);
  error = NULL;
  assert_int_equal(simpler_run_wait(behind, SIMPLER_FOREVER, &error), SIMPLER_CHIP_LOST);
  assert_int_equal(simpler_error_chip(error), 1);
  simpler_error_free(error);
  assert_true(api_now_ns() - start < api_patience_ns(2000000000u));
  assert_int_equal(words[0], 11);
  assert_int_equal(words[1], 12);
  assert_int_equal(api_stats(run).state, SIMPLER_RUN_FAILED);
  assert_ok(simpler_run_release(run, &err));
  assert_ok(simpler_run_release(behind, &err));
  check_others_go_on(worker, increment);
}

/* P86 */
static void P86_a_kernel_that_crashes(void **state) { die_in(*state, "crash", NULL, SIGSEGV, ""); }
static void P86_a_kernel_that_aborts(void **state) { die_in(*state, "abort_itself", NULL, SIGABRT, ""); }
static void P86_a_kernel_that_kills_its_process(void **state) { die_in(*state, "kill_itself", NULL, SIGKILL, ""); }
static void P86_a_kernel_that_exits(void **state) { die_in(*state, "exit_3", NULL, 0, "3"); }
static void P86_an_orchestration_that_crashes(void **state) { die_in(*state, NULL, "orch_crash", SIGSEGV, ""); }

typedef struct waiter {
  simpler_run *run;
  simpler_status status;
  int32_t chip;
  uint64_t done_ns;
} waiter;

static void *wait_on_thread(void *argument) {
  waiter *w = argument;
  simpler_error *error = NULL;
  w->status = simpler_run_wait(w->run, SIMPLER_FOREVER, &error);
  w->done_ns = api_now_ns();
  w->chip = simpler_error_chip(error);
  simpler_error_free(error);
  return NULL;
}

/* P86, C01: killed from outside while it runs, with two threads waiting on two runs. */
static void C01_a_killed_chip_wakes_all_who_wait_for_it(void **state) {
  simpler_worker *worker = api_start(*state, 3);
  simpler_callable *increment = api_register_kernel(worker, "increment");
  api_gate gate = api_gate_make(worker);
  waiter waiters[2];
  pthread_t threads[2];
  uint64_t killed_ns;
  int i;
  waiters[0].run = api_gate_enter(worker, &gate, 1);
  waiters[1].run = api_submit(worker, increment, 1, NULL, 0, NULL, 0);
  for (i = 0; i < 2; i++) pthread_create(&threads[i], NULL, wait_on_thread, &waiters[i]);
  killed_ns = api_now_ns();
  assert_int_equal(kill((pid_t)api_chip_pid(worker, 1), SIGKILL), 0);
  for (i = 0; i < 2; i++) {
    pthread_join(threads[i], NULL);
    assert_string_equal(simpler_status_name(waiters[i].status), "CHIP_LOST");
    assert_int_equal(waiters[i].chip, 1);
    assert_true(waiters[i].done_ns - killed_ns < api_patience_ns(2000000000u));
    assert_ok(simpler_run_release(waiters[i].run, &err));
  }
  assert_ok(simpler_buffer_release(gate.buffer, &err)); /* nobody uses it any more */
  check_others_go_on(worker, increment);
}

/* P86: killed while it is idle. */
static void P86_an_idle_chip_that_is_killed_is_noticed(void **state) {
  simpler_worker *worker = api_start(*state, 3);
  simpler_callable *increment = api_register_kernel(worker, "increment");
  const int64_t pid = api_chip_pid(worker, 1);
  const int pidfd = api_pidfd(pid);
  const simpler_task task = api_task(increment, 1, NULL, 0, NULL, 0);
  simpler_error *error = NULL;
  assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
  assert_true(api_ends_within(pidfd, 10000000000u));
  close(pidfd);
  assert_int_equal(simpler_worker_run(worker, &task, NULL, &error), SIMPLER_CHIP_LOST);
  check_chip_lost(worker, 1, pid, error, SIGKILL);
  simpler_error_free(error);
  check_others_go_on(worker, increment);
}

typedef struct hammer {
  simpler_worker *worker;
  simpler_callable *callable;
  uint64_t rounds;
  int wrong;
} hammer;

/* With a chip gone, "all chips" are those that live. */
static void register_goes_on_with_the_chips_that_live(void **state) {
  simpler_worker *worker = api_start(*state, 2);
  simpler_callable *first = api_register(worker, "add_1"), *callable;
  simpler_error *error = NULL;
  uint64_t word = 0;
  api_desc d;
  assert_int_equal(kill((pid_t)api_chip_pid(worker, 1), SIGKILL), 0);
  assert_fails(SIMPLER_CHIP_LOST, "", api_run(worker, first, 1, &word, 1, NULL, 0, &err));
  callable = api_register(worker, "add_2");
  assert_ok(api_run(worker, callable, 0, &word, 1, NULL, 0, &err));
  assert_int_equal(word, 2);
  assert_int_equal(api_run(worker, callable, 1, &word, 1, NULL, 0, &error), SIMPLER_CHIP_LOST);
  assert_int_equal(simpler_error_chip(error), 1);
  simpler_error_free(error);
  assert_ok(simpler_worker_unregister(worker, callable, &err));
  assert_int_equal(kill((pid_t)api_chip_pid(worker, 0), SIGKILL), 0);
  assert_fails(SIMPLER_CHIP_LOST, "", api_run(worker, first, 0, &word, 1, NULL, 0, &err));
  assert_fails(SIMPLER_CHIP_LOST, "", simpler_worker_register(worker, api_describe(&d, "add_3"), &callable, &err));
  assert_null(callable);
}

/* A chip dies while a thread registers and unregisters: each call succeeds, or says that a chip was lost. */
static void *register_on_thread(void *argument) {
  hammer *h = argument;
  int i;
  for (i = 0; i < 200; i++) {
    const simpler_image image = {TEST_CALLABLE_DIR "/add_2.so", NULL, 0};
    simpler_callable_desc desc = SIMPLER_CALLABLE_DESC_INIT;
    simpler_callable *callable;
    simpler_status status;
    uint64_t word = 0;
    desc.images = &image;
    desc.image_count = 1;
    status = simpler_worker_register(h->worker, &desc, &callable, NULL);
    __atomic_fetch_add(&h->rounds, 1, __ATOMIC_SEQ_CST);
    if (status == SIMPLER_OK) status = api_run(h->worker, callable, 0, &word, 1, NULL, 0, NULL);
    if (status == SIMPLER_OK && word != 2) h->wrong++;
    if (status != SIMPLER_OK && status != SIMPLER_CHIP_LOST) h->wrong++;
    if (simpler_worker_unregister(h->worker, callable, NULL) != SIMPLER_OK) h->wrong++;
  }
  return NULL;
}

static void a_chip_dies_during_register(void **state) {
  int round;
  for (round = 0; round < 10; round++) {
    simpler_worker *worker = api_start(*state, 2);
    simpler_worker_info info = SIMPLER_WORKER_INFO_INIT;
    hammer h = {worker, NULL, 0, 0};
    pthread_t thread;
    pthread_create(&thread, NULL, register_on_thread, &h);
    api_wait_for_word(&h.rounds, 1 + (uint64_t)round);
    kill((pid_t)api_chip_pid(worker, 1), SIGKILL);
    pthread_join(thread, NULL);
    assert_int_equal(h.wrong, 0);
    assert_ok(simpler_worker_get_info(worker, &info, &err));
    assert_int_equal(info.callables, 0);
    check_works(worker, 0);
    assert_ok(simpler_worker_destroy(worker, &err));
  }
}

/* C34: a chip dies while four threads submit to it; all of them come back. */

static void *hammer_on_thread(void *argument) {
  hammer *h = argument;
  for (;;) {
    uint64_t word = 1;
    const simpler_status status = api_run(h->worker, h->callable, 1, &word, 1, NULL, 0, NULL);
    __atomic_fetch_add(&h->rounds, 1, __ATOMIC_SEQ_CST);
    if (status == SIMPLER_OK && word != 2) h->wrong++;
    if (status != SIMPLER_OK) {
      if (status != SIMPLER_CHIP_LOST) h->wrong++;
      return NULL;
    }
  }
}

static void C34_a_chip_dies_while_four_threads_submit(void **state) {
  int round;
  for (round = 0; round < 10; round++) {
    simpler_worker *worker = api_start(*state, 2);
    simpler_callable *callable = api_register(worker, "add_1");
    hammer hammers[4];
    pthread_t threads[4];
    int i;
    for (i = 0; i < 4; i++) {
      const hammer h = {worker, callable, 0, 0};
      hammers[i] = h;
      pthread_create(&threads[i], NULL, hammer_on_thread, &hammers[i]);
    }
    api_wait_for_word(&hammers[round % 4].rounds, (uint64_t)round * 3);
    kill((pid_t)api_chip_pid(worker, 1), SIGKILL);
    for (i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (i = 0; i < 4; i++) assert_int_equal(hammers[i].wrong, 0);
    check_works(worker, 0);
    assert_ok(simpler_worker_destroy(worker, &err));
  }
}

/* A stopped chip (as under a debugger) is not dead: nothing is reported, and it goes on later. */
static void a_stopped_chip_is_not_lost(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callable = api_register_kernel(worker, "increment");
  const pid_t pid = (pid_t)api_chip_pid(worker, 0);
  uint64_t word = 0;
  simpler_run *run;
  simpler_status status;
  siginfo_t stopped;
  kill(pid, SIGSTOP);
  assert_int_equal(waitid(P_PID, (id_t)pid, &stopped, WSTOPPED), 0); /* the signal has arrived on every thread */
  run = api_submit(worker, callable, 0, &word, 1, NULL, 0);
  status = simpler_run_wait(run, 300000000, NULL);
  kill(pid, SIGCONT);
  assert_string_equal(simpler_status_name(status), "TIMEOUT");
  api_finish(run);
  assert_int_equal(word, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      API_TEST_BOTH(P110_a_failing_kernel_fails_one_run_with_all_particulars),
      API_TEST_BOTH(a_failed_single_kernel_names_its_callable),
      API_TEST_BOTH(a_run_behind_a_failed_one_is_not_harmed),
      API_TEST_BOTH(P96_a_failing_orchestration_gives_code_and_text),
      API_TEST_BOTH(tasks_of_a_failing_orchestration_end_first),
      API_TEST_BOTH(a_returned_number_fails_the_run),
      API_TEST_BOTH(an_ignored_failure_fails_the_run),
      API_TEST_BOTH(exceptions_of_orchestrations_fail_the_run),
      API_TEST_BOTH(an_unclosed_scope_fails_the_run),
      API_TEST_BOTH(mistakes_name_function_and_argument),
      API_TEST_BOTH(P35_a_scope_larger_than_the_window_is_a_deadlock_by_name),
      API_TEST_BOTH(P43_an_output_larger_than_the_heap_is_refused_with_numbers),
      API_TEST_BOTH(P43_a_scope_larger_than_the_heap_is_a_deadlock_by_name),
      API_TEST(P86_a_kernel_that_crashes),
      API_TEST(P86_a_kernel_that_aborts),
      API_TEST(P86_a_kernel_that_kills_its_process),
      API_TEST(P86_a_kernel_that_exits),
      API_TEST(P86_an_orchestration_that_crashes),
      API_TEST(C01_a_killed_chip_wakes_all_who_wait_for_it),
      API_TEST(P86_an_idle_chip_that_is_killed_is_noticed),
      API_TEST(register_goes_on_with_the_chips_that_live),
      API_TEST(a_chip_dies_during_register),
      API_TEST(C34_a_chip_dies_while_four_threads_submit),
      API_TEST(a_stopped_chip_is_not_lost),
  };
  return api_run_tests(tests);
}
