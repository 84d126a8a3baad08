/* Workers: create, ask, close; options, handles, errors, logs; what a worker does to the process that it lives in.
 * ctest: TIMEOUT 120 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api.h"

/* ---- versions, statuses, errors -------------------------------------------------------------------------------------- */

static void version_is_that_of_the_header(void **state) {
  char text[32];
  (void)state;
  snprintf(text, sizeof text, "%d.%d.%d", SIMPLER_VERSION_MAJOR, SIMPLER_VERSION_MINOR, SIMPLER_VERSION_PATCH);
  assert_string_equal(simpler_version_string(), text);
  assert_int_equal(simpler_version(), SIMPLER_VERSION_MAJOR << 16 | SIMPLER_VERSION_MINOR << 8 | SIMPLER_VERSION_PATCH);
}

static void statuses_have_names(void **state) {
  (void)state;
  assert_string_equal(simpler_status_name(SIMPLER_OK), "OK");
  assert_string_equal(simpler_status_name(SIMPLER_INVALID_ARGUMENT), "INVALID_ARGUMENT");
  assert_string_equal(simpler_status_name(SIMPLER_CAPACITY_CALLABLES), "CAPACITY_CALLABLES");
  assert_string_equal(simpler_status_name(SIMPLER_SYSTEM_ERROR), "SYSTEM_ERROR");
  assert_string_equal(simpler_status_name(2), "UNKNOWN");
  assert_string_equal(simpler_status_name(-1), "UNKNOWN");
  assert_string_equal(simpler_status_name(INT32_MAX), "UNKNOWN");
}

static void check_neutral(const simpler_error *error) {
  assert_int_equal(simpler_error_code(error), SIMPLER_OK);
  assert_non_null(simpler_error_message(error));
  assert_int_equal(simpler_error_chip(error), SIMPLER_CHIP_ANY);
  assert_int_equal(simpler_error_pid(error), 0);
  assert_int_equal(simpler_error_signal(error), 0);
  assert_string_equal(simpler_error_callable(error), "");
  assert_string_equal(simpler_error_task_label(error), "");
  assert_int_equal(simpler_error_task(error), 0);
  assert_int_equal(simpler_error_kernel(error), SIMPLER_NO_KERNEL);
  assert_int_equal(simpler_error_user_code(error), 0);
}

/* C29: the rule for freeing is simple, and breaking it does no harm. */
static void error_accessors_take_any_pointer(void **state) {
  simpler_error *error = NULL;
  simpler_worker *worker = NULL;
  simpler_worker_options options = SIMPLER_WORKER_OPTIONS_INIT;
  int invented = 0;
  (void)state;
  check_neutral(NULL);
  check_neutral((simpler_error *)(void *)&invented);
  options.platform = "no such platform";
  assert_int_equal(simpler_worker_create(&options, &worker, &error), SIMPLER_INVALID_ARGUMENT);
  assert_null(worker);
  assert_int_equal(simpler_error_code(error), SIMPLER_INVALID_ARGUMENT);
  assert_message(error, "no such platform");
  simpler_error_free(error);
  check_neutral(error);
  simpler_error_free(error);
  simpler_error_free(NULL);
  simpler_error_free((simpler_error *)(void *)&invented);
}

static void errors_need_not_be_asked_for(void **state) {
  simpler_worker *worker = (simpler_worker *)1;
  simpler_worker_options options = SIMPLER_WORKER_OPTIONS_INIT;
  (void)state;
  options.chips = 1000;
  assert_int_not_equal(simpler_worker_create(&options, &worker, NULL), SIMPLER_OK);
  assert_null(worker);
}

/* ---- create ----------------------------------------------------------------------------------------------------------- */

static void create_without_options_gives_one_chip_process(void **state) {
  simpler_worker *worker;
  simpler_worker_info info = SIMPLER_WORKER_INFO_INIT;
  int64_t pid;
  (void)state;
  assert_ok(simpler_worker_create(NULL, &worker, &err));
  assert_ok(simpler_worker_get_info(worker, &info, &err));
  assert_int_equal(info.chips, 1);
  assert_int_equal(info.clusters_per_chip, 24);
  assert_true(info.carriers_per_chip >= 1);
  assert_int_equal(info.callables, 0);
  assert_true(info.gm_bytes >= (uint64_t)4 << 30);
  assert_ok(simpler_worker_chip_pid(worker, 0, &pid, &err));
  assert_true(pid > 0 && pid != getpid());
  assert_ok(simpler_worker_destroy(worker, &err));
}

static void options_choose_the_geometry(void **state) {
  simpler_worker_options options = api_options(*state, 2);
  simpler_worker_info info = SIMPLER_WORKER_INFO_INIT;
  options.platform = "a5sim";
  options.carriers_per_chip = 3;
  options.gm_bytes = (uint64_t)64 << 20;
  assert_ok(simpler_worker_get_info(api_start_with(*state, &options), &info, &err));
  assert_int_equal(info.chips, 2);
  assert_int_equal(info.clusters_per_chip, 36);
  assert_int_equal(info.carriers_per_chip, 3);
  assert_true(info.gm_bytes >= options.gm_bytes);
  options.platform = "a2a3sim";
  options.clusters_per_chip = 5;
  assert_ok(simpler_worker_get_info(api_start_with(*state, &options), &info, &err));
  assert_int_equal(info.clusters_per_chip, 5);
}

/* P26 */
static void P26_bad_options_are_refused_by_name(void **state) {
  static const struct {
    const char *name;
    size_t offset, size;
    uint64_t value;
  } bad[] = {
#define BAD(field, value) \
  {#field, offsetof(simpler_worker_options, field), sizeof(((simpler_worker_options *)0)->field), value}
      BAD(chips, 0),
      BAD(isolation, 2),
      BAD(isolation, UINT32_MAX),
      BAD(clusters_per_chip, 25),
      BAD(clusters_per_chip, UINT32_MAX),
      BAD(carriers_per_chip, 257),
      BAD(carriers_per_chip, INT32_MAX),
      BAD(carriers_per_chip, UINT32_MAX),
      BAD(callable_capacity, 65537),
      BAD(callable_capacity, UINT32_MAX),
      BAD(window, 1),
      BAD(window, 2),
      BAD(window, 6),
      BAD(window, 4097),
      BAD(window, 131072),
      BAD(window, UINT32_MAX),
      BAD(heap_bytes, 1),
      BAD(heap_bytes, 4095),
      BAD(heap_bytes, ((uint64_t)1 << 40) + 1),
      BAD(heap_bytes, UINT64_MAX),
      BAD(gm_bytes, 1),
      BAD(gm_bytes, ((uint64_t)1 << 20) - 1),
      BAD(gm_bytes, ((uint64_t)1 << 40) + 1),
      BAD(gm_bytes, UINT64_MAX),
      BAD(log_level, 77),
      BAD(reserved, 1),
#undef BAD
  };
  size_t i;
  for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    simpler_worker_options options = api_options(*state, 1);
    simpler_worker *worker = (simpler_worker *)1;
    memcpy((char *)&options + bad[i].offset, &bad[i].value, bad[i].size); /* little-endian */
    print_message("%s = %llu\n", bad[i].name, (unsigned long long)bad[i].value);
    assert_fails(SIMPLER_INVALID_ARGUMENT, bad[i].name, simpler_worker_create(&options, &worker, &err));
    assert_null(worker);
  }
}

static void P26_too_many_chips_are_refused(void **state) {
  static const uint32_t bad[] = {65, INT32_MAX, UINT32_MAX};
  size_t i;
  for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    simpler_worker_options options = api_options(*state, bad[i]);
    simpler_worker *worker = NULL;
    simpler_error *error = NULL;
    const simpler_status status = simpler_worker_create(&options, &worker, &error);
    assert_true(status == SIMPLER_INVALID_ARGUMENT || status == SIMPLER_CAPACITY_CHIPS);
    assert_message(error, "chips");
    assert_message(error, "64");
    simpler_error_free(error);
    assert_null(worker);
  }
}

static void create_needs_an_out_parameter(void **state) {
  simpler_worker_options options = api_options(*state, 1);
  assert_fails(SIMPLER_INVALID_ARGUMENT, "worker", simpler_worker_create(&options, NULL, &err));
}

/* C19: programs built against other versions of the header. */
static void C19_struct_sizes_are_checked(void **state) {
  struct {
    simpler_worker_options options;
    uint64_t later[4];
  } newer = {api_options(*state, 1), {0}};
  simpler_worker *worker;
  newer.options.struct_size = 0;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "struct_size", simpler_worker_create(&newer.options, &worker, &err));
  newer.options.struct_size = 7;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "struct_size", simpler_worker_create(&newer.options, &worker, &err));
  newer.options.struct_size = sizeof newer;
  worker = api_start_with(*state, &newer.options);
  assert_ok(simpler_worker_destroy(worker, &err));
  newer.later[3] = 1;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "", simpler_worker_create(&newer.options, &worker, &err));
}

/* C19: a program that knows fewer fields gets those; one that knows more gets zeros, or keeps what it had, in the rest. */
static void C19_info_is_filled_up_to_its_size(void **state) {
  simpler_worker *worker = api_start(*state, 2);
  simpler_worker_info info;
  memset(&info, 0xee, sizeof info);
  info.struct_size = offsetof(simpler_worker_info, callables);
  assert_ok(simpler_worker_get_info(worker, &info, &err));
  assert_int_equal(info.chips, 2);
  assert_int_equal(info.struct_size, offsetof(simpler_worker_info, callables));
  assert_int_equal(info.callables, 0xeeeeeeee);
  assert_int_equal(info.gm_bytes_used, 0xeeeeeeeeeeeeeeee);
  info.struct_size = 0;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "struct_size", simpler_worker_get_info(worker, &info, &err));
}

static void chip_pid_names_the_process_of_a_chip(void **state) {
  simpler_worker *worker = api_start(*state, 3);
  int64_t pid = 7;
  if (api_is_in_process(*state)) {
    assert_int_equal(api_chip_pid(worker, 0), getpid());
    assert_int_equal(api_chip_pid(worker, 2), getpid());
  } else {
    assert_int_not_equal(api_chip_pid(worker, 0), api_chip_pid(worker, 1));
    assert_int_not_equal(api_chip_pid(worker, 1), api_chip_pid(worker, 2));
    assert_int_equal(kill((pid_t)api_chip_pid(worker, 2), 0), 0);
  }
  assert_fails(SIMPLER_INVALID_ARGUMENT, "chip", simpler_worker_chip_pid(worker, 3, &pid, &err));
  assert_int_equal(pid, 0);
  assert_fails(SIMPLER_INVALID_ARGUMENT, "chip", simpler_worker_chip_pid(worker, UINT32_MAX, &pid, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "pid", simpler_worker_chip_pid(worker, 0, NULL, &err));
}

/* ---- chips that do not come up ------------------------------------------------------------------------------------------ */

static void works(void *state) {
  simpler_worker *worker = api_start(state, 1);
  uint64_t word = 1;
  assert_ok(api_run(worker, api_register_kernel(worker, "increment"), 0, &word, 1, NULL, 0, &err));
  assert_int_equal(word, 2);
  assert_ok(simpler_worker_destroy(worker, &err));
}

static void write_script(char *path, size_t size, const char *text) {
  const char *folder = getenv("TMPDIR");
  FILE *file;
  snprintf(path, size, "%s/simpler-chip-XXXXXX", folder != NULL ? folder : "/tmp");
  file = fdopen(mkstemp(path), "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

/* C40 */
static void C40_a_missing_chip_executable_is_named(void **state) {
  simpler_worker_options options = api_options(*state, 2);
  simpler_worker *worker;
  options.chip_path = "/nowhere/simpler-chip";
  assert_fails(SIMPLER_NOT_FOUND, "/nowhere/simpler-chip", simpler_worker_create(&options, &worker, &err));
  works(*state);
}

static void C40_a_file_that_is_no_program_is_named(void **state) {
  simpler_worker_options options = api_options(*state, 1);
  simpler_worker *worker = NULL;
  simpler_error *error = NULL;
  simpler_status status;
  char path[512];
  write_script(path, sizeof path, "just text\n");
  options.chip_path = path;
  status = simpler_worker_create(&options, &worker, &error); /* not executable */
  assert_int_not_equal(status, SIMPLER_OK);
  assert_message(error, path);
  simpler_error_free(error);
  chmod(path, 0700);
  error = NULL;
  status = simpler_worker_create(&options, &worker, &error); /* executable, but of no known format */
  unlink(path);
  assert_int_not_equal(status, SIMPLER_OK);
  assert_message(error, path);
  simpler_error_free(error);
  assert_null(worker);
  works(*state);
}

/* P08 */
static void P08_a_chip_that_dies_at_its_start_is_named(void **state) {
  simpler_worker_options options = api_options(*state, 3);
  simpler_worker *worker = NULL;
  simpler_error *error = NULL;
  options.chip_path = "/bin/false";
  assert_int_equal(simpler_worker_create(&options, &worker, &error), SIMPLER_CHIP_LOST);
  assert_null(worker);
  assert_in_range(simpler_error_chip(error), 0, 2);
  assert_true(simpler_error_pid(error) > 0);
  simpler_error_free(error);
  works(*state);
}

/* P08: alive, but never ready. */
static void P08_a_chip_that_is_not_ready_in_time_is_named(void **state) {
  simpler_worker_options options = api_options(*state, 2);
  simpler_worker *worker = NULL;
  simpler_error *error = NULL;
  const uint64_t start = api_now_ns();
  simpler_status status;
  char path[512];
  write_script(path, sizeof path, "#!/bin/sh\nexec sleep 1000\n");
  chmod(path, 0700);
  options.chip_path = path;
  options.start_limit_ns = 200000000;
  status = simpler_worker_create(&options, &worker, &error);
  unlink(path);
  assert_int_equal(status, SIMPLER_START_LIMIT);
  assert_null(worker);
  assert_in_range(simpler_error_chip(error), 0, 1);
  simpler_error_free(error);
  assert_true(api_now_ns() - start < api_patience_ns(3000000000u));
  works(*state);
}

/* ---- handles ---------------------------------------------------------------------------------------------------------- */

/* C30 */
static void C30_null_and_invented_workers_are_refused(void **state) {
  simpler_worker_info info = SIMPLER_WORKER_INFO_INIT;
  simpler_worker *invented = (simpler_worker *)(void *)&info;
  simpler_callable *callable = (simpler_callable *)1;
  simpler_buffer *buffer = (simpler_buffer *)1;
  simpler_run *run = (simpler_run *)1;
  simpler_task task = SIMPLER_TASK_INIT;
  api_desc d;
  (void)state;
  assert_ok(simpler_worker_destroy(NULL, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_worker_destroy(invented, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_worker_get_info(invented, &info, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_worker_get_info((simpler_worker *)1, &info, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_worker_register(invented, api_describe(&d, "add_1"), &callable, &err));
  assert_null(callable);
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_buffer_create(invented, 64, &buffer, &err));
  assert_null(buffer);
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_worker_submit(invented, &task, NULL, &run, &err));
  assert_null(run);
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_run_wait((simpler_run *)invented, 0, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_run_release((simpler_run *)invented, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_buffer_release((simpler_buffer *)invented, &err));
  assert_null(simpler_buffer_data((simpler_buffer *)invented));
  assert_int_equal(simpler_buffer_bytes((simpler_buffer *)invented), 0);
  assert_ok(simpler_run_release(NULL, &err));
  assert_ok(simpler_buffer_release(NULL, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "worker", simpler_worker_get_info(NULL, &info, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "worker", simpler_buffer_create(NULL, 64, &buffer, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "run", simpler_run_wait(NULL, 0, &err));
}

/* C30: a handle of another kind. */
static void C30_handles_of_another_kind_are_refused(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callable = api_register_kernel(worker, "nothing");
  simpler_buffer *buffer;
  simpler_worker_info info = SIMPLER_WORKER_INFO_INIT;
  assert_ok(simpler_buffer_create(worker, 64, &buffer, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_worker_get_info((simpler_worker *)callable, &info, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_worker_unregister(worker, (simpler_callable *)buffer, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_buffer_release((simpler_buffer *)callable, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_run_wait((simpler_run *)worker, 0, &err));
  assert_null(simpler_buffer_data((simpler_buffer *)callable));
}

/* C27, C30, P91 */
static void C27_after_destroy_every_call_says_closed(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callable = api_register_kernel(worker, "nothing"), *fresh;
  simpler_worker_info info = SIMPLER_WORKER_INFO_INIT;
  simpler_buffer *buffer;
  simpler_task task = api_task(callable, 0, NULL, 0, NULL, 0);
  simpler_run *run;
  int64_t pid;
  api_desc d;
  assert_ok(simpler_buffer_create(worker, 64, &buffer, &err));
  assert_ok(simpler_worker_destroy(worker, &err));
  assert_fails(SIMPLER_CLOSED, "", simpler_worker_destroy(worker, &err));
  assert_fails(SIMPLER_CLOSED, "", simpler_worker_get_info(worker, &info, &err));
  assert_fails(SIMPLER_CLOSED, "", simpler_worker_chip_pid(worker, 0, &pid, &err));
  assert_fails(SIMPLER_CLOSED, "", simpler_worker_register(worker, api_describe(&d, "add_1"), &fresh, &err));
  assert_fails(SIMPLER_CLOSED, "", simpler_worker_unregister(worker, callable, &err));
  assert_fails(SIMPLER_CLOSED, "", simpler_worker_submit(worker, &task, NULL, &run, &err));
  assert_fails(SIMPLER_CLOSED, "", simpler_worker_run(worker, &task, NULL, &err));
  assert_null(simpler_buffer_data(buffer));
  assert_int_equal(simpler_buffer_bytes(buffer), 0);
  assert_int_not_equal(simpler_buffer_release(buffer, NULL), SIMPLER_OK);
  assert_fails(SIMPLER_CLOSED, "", simpler_buffer_create(worker, 64, &buffer, &err));
}

static void runs_stay_readable_after_destroy(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  const uint64_t n = 5;
  uint64_t word = 0;
  simpler_run *run = api_submit(worker, api_register_orchestration(worker, "orch_chain"), 0, &word, 1, &n, 1);
  assert_ok(simpler_run_wait(run, SIMPLER_FOREVER, &err));
  assert_ok(simpler_worker_destroy(worker, &err));
  assert_ok(simpler_run_wait(run, 0, &err));
  assert_int_equal(api_stats(run).state, SIMPLER_RUN_DONE);
  assert_int_equal(api_stats(run).tasks_done, 5);
  assert_int_equal(word, 5);
  assert_ok(simpler_run_release(run, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_run_release(run, &err));
}

/* P82 */
static void P82_handles_of_another_worker_are_refused(void **state) {
  simpler_worker *one = api_start(*state, 1), *two = api_start(*state, 1);
  simpler_callable *callable = api_register_kernel(one, "increment"), *here = api_register_kernel(two, "increment");
  simpler_buffer *buffer;
  simpler_tensor_arg tensor;
  simpler_task task = api_task(callable, 0, &tensor, 0, NULL, 0);
  simpler_run *run;
  assert_ok(simpler_buffer_create(one, 64, &buffer, &err));
  tensor = api_buffer_words(buffer);
  assert_fails(SIMPLER_INVALID_HANDLE, "callable", simpler_worker_submit(two, &task, NULL, &run, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "callable", simpler_worker_unregister(two, callable, &err));
  task.callable = here;
  task.tensor_count = 1;
  assert_fails(SIMPLER_INVALID_HANDLE, "buffer", simpler_worker_submit(two, &task, NULL, &run, &err));
  assert_ok(simpler_worker_unregister(one, callable, &err));
}

/* The child after fork() can do nothing with the parent's worker, and the parent nothing notices. */
static void a_forked_child_is_refused(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callable = api_register_kernel(worker, "increment");
  simpler_task task = api_task(callable, 0, NULL, 0, NULL, 0);
  uint64_t word = 0;
  int status;
  const pid_t child = fork();
  if (child == 0) {
    simpler_worker_info info = SIMPLER_WORKER_INFO_INIT;
    simpler_run *run;
    int wrong = 0;
    wrong += simpler_worker_get_info(worker, &info, NULL) != SIMPLER_WRONG_PROCESS;
    wrong += simpler_worker_submit(worker, &task, NULL, &run, NULL) != SIMPLER_WRONG_PROCESS;
    wrong += simpler_worker_unregister(worker, callable, NULL) != SIMPLER_WRONG_PROCESS;
    wrong += simpler_worker_destroy(worker, NULL) != SIMPLER_WRONG_PROCESS;
    _exit(wrong);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  assert_ok(api_run(worker, callable, 0, &word, 1, NULL, 0, &err));
  assert_int_equal(word, 1);
}

/* ---- destroy ------------------------------------------------------------------------------------------------------------ */

/* C37 */
static void C37_a_hundred_workers_leave_nothing(void **state) {
  simpler_test_snapshot *before;
  int i;
  works(*state);
  before = simpler_test_snapshot_take();
  for (i = 0; i < (api_is_sanitized() ? 20 : 60); i++) {
    simpler_worker *worker;
    simpler_worker_options options = api_options(*state, 1 + i % 3);
    assert_ok(simpler_worker_create(&options, &worker, &err));
    assert_ok(simpler_worker_destroy(worker, &err));
  }
  assert_int_equal(simpler_test_snapshot_check(before, "a hundred workers"), 0);
}

/* P10: what went before in the process does not matter. */
static void P10_assorted_workers_follow_each_other(void **state) {
  int i;
  for (i = 0; i < 10; i++) {
    simpler_worker_options options = api_options(*state, 3);
    simpler_worker *worker;
    uint64_t word = 0;
    works(*state);
    worker = api_start_with(*state, &options);
    assert_fails(SIMPLER_KERNEL_FAILED, "",
                 api_run(worker, api_register_kernel(worker, "fail"), 2, &word, 1, NULL, 0, &err));
    assert_ok(simpler_worker_destroy(worker, &err));
    options.chip_path = "/nowhere/simpler-chip";
    options.window = i % 2 == 0 ? 5 : 0;
    if (!api_is_in_process(*state) || i % 2 == 0) {
      assert_int_not_equal(simpler_worker_create(&options, &worker, NULL), SIMPLER_OK);
    }
    if (!api_is_in_process(*state)) {
      worker = api_start(*state, 2);
      kill((pid_t)api_chip_pid(worker, 1), SIGKILL);
      assert_ok(simpler_worker_destroy(worker, &err));
    }
  }
  works(*state);
}

/* P90: all of eight chips end when their worker does, every time. */
static void P90_eight_chips_end_with_their_worker(void **state) {
  int round, chip;
  for (round = 0; round < (api_is_sanitized() ? 3 : 10); round++) {
    simpler_worker *worker = api_start(*state, 8);
    simpler_callable *callable = api_register_kernel(worker, "increment");
    simpler_run *runs[8];
    uint64_t words[8] = {0};
    int pidfds[8];
    for (chip = 0; chip < 8; chip++) {
      runs[chip] = api_submit(worker, callable, chip, &words[chip], 1, NULL, 0);
      pidfds[chip] = api_pidfd(api_chip_pid(worker, (uint32_t)chip));
    }
    for (chip = 0; chip < 8; chip++) {
      api_finish(runs[chip]);
      assert_int_equal(words[chip], 1);
    }
    assert_ok(simpler_worker_destroy(worker, &err));
    for (chip = 0; chip < 8; chip++) {
      if (!api_ends_within(pidfds[chip], 0)) fail_msg("chip %d has outlived its worker", chip);
      close(pidfds[chip]);
    }
  }
}

static void *destroy_on_thread(void *worker) { return (void *)(intptr_t)simpler_worker_destroy(worker, NULL); }

/* P91: all that overlap return OK when it is done; those that come later say CLOSED. */
static void P91_destroy_from_four_threads_is_one_teardown(void **state) {
  int round;
  for (round = 0; round < 10; round++) {
    simpler_worker *worker = api_start(*state, 2);
    pthread_t threads[4];
    int i, ok = 0;
    for (i = 0; i < 4; i++) pthread_create(&threads[i], NULL, destroy_on_thread, worker);
    for (i = 0; i < 4; i++) {
      void *status;
      pthread_join(threads[i], &status);
      assert_true((intptr_t)status == SIMPLER_OK || (intptr_t)status == SIMPLER_CLOSED);
      ok += (intptr_t)status == SIMPLER_OK;
    }
    assert_true(ok >= 1);
  }
}

static void destroy_waits_for_the_run_that_runs(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  const uint64_t ns = 100000000;
  simpler_run *run = api_submit(worker, api_register_kernel(worker, "slow"), 0, NULL, 0, &ns, 1);
  while (api_stats(run).state == SIMPLER_RUN_QUEUED) sched_yield();
  assert_ok(simpler_worker_destroy(worker, &err));
  assert_ok(simpler_run_wait(run, 0, &err));
  assert_ok(simpler_run_release(run, &err));
}

static void destroy_cancels_what_is_queued(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *slow = api_register_kernel(worker, "slow"), *nothing = api_register_kernel(worker, "nothing");
  const uint64_t ns = 200000000;
  simpler_run *first = api_submit(worker, slow, 0, NULL, 0, &ns, 1), *queued[20];
  int i;
  for (i = 0; i < 20; i++) queued[i] = api_submit(worker, nothing, 0, NULL, 0, NULL, 0);
  while (api_stats(first).state == SIMPLER_RUN_QUEUED) sched_yield();
  assert_ok(simpler_worker_destroy(worker, &err));
  assert_ok(simpler_run_wait(first, 0, &err));
  assert_ok(simpler_run_release(first, &err));
  for (i = 0; i < 20; i++) {
    assert_fails(SIMPLER_CANCELLED, "", simpler_run_wait(queued[i], 0, &err));
    assert_int_equal(api_stats(queued[i]).state, SIMPLER_RUN_CANCELLED);
    assert_ok(simpler_run_release(queued[i], &err));
  }
}

typedef struct waiter {
  simpler_run *run;
  simpler_status status;
  sem_t started;
} waiter;

static void *wait_on_thread(void *argument) {
  waiter *w = argument;
  sem_post(&w->started);
  w->status = simpler_run_wait(w->run, SIMPLER_FOREVER, NULL);
  return NULL;
}

/* P91, C60: a kernel that never returns does not keep destroy from ending in time, and its waiter is told. */
static void P91_destroy_is_bounded_when_a_kernel_never_returns(void **state) {
  simpler_worker_options options = api_options(*state, 2);
  simpler_worker *worker;
  simpler_callable *spin, *nothing;
  simpler_run *stuck, *behind, *other;
  uint64_t start;
  waiter w;
  pthread_t thread;
  options.close_limit_ns = 200000000;
  worker = api_start_with(*state, &options);
  spin = api_register_kernel(worker, "spin");
  nothing = api_register_kernel(worker, "nothing");
  stuck = api_submit(worker, spin, 1, NULL, 0, NULL, 0);
  behind = api_submit(worker, nothing, 1, NULL, 0, NULL, 0);
  other = api_submit(worker, nothing, 0, NULL, 0, NULL, 0);
  assert_ok(simpler_run_wait(other, SIMPLER_FOREVER, &err));
  while (api_stats(stuck).state == SIMPLER_RUN_QUEUED) sched_yield();
  w.run = stuck;
  sem_init(&w.started, 0, 0);
  pthread_create(&thread, NULL, wait_on_thread, &w);
  sem_wait(&w.started);
  start = api_now_ns();
  assert_ok(simpler_worker_destroy(worker, &err));
  assert_true(api_now_ns() - start < api_patience_ns(1200000000));
  pthread_join(thread, NULL);
  sem_destroy(&w.started);
  assert_int_equal(w.status, SIMPLER_CANCELLED);
  assert_int_equal(simpler_run_wait(behind, 0, NULL), SIMPLER_CANCELLED);
  assert_int_equal(simpler_run_wait(other, 0, NULL), SIMPLER_OK);
  assert_ok(simpler_run_release(stuck, &err));
  assert_ok(simpler_run_release(behind, &err));
  assert_ok(simpler_run_release(other, &err));
}

typedef struct loop {
  simpler_worker *worker;
  simpler_callable *callable;
  int churn; /* register and unregister, too */
  const char *path;
  uint64_t rounds;          /* written by its thread, read by the test */
  simpler_status last, bad; /* the status that ended the loop; one that must not come */
} loop;

static void *run_until_refused(void *argument) {
  loop *l = argument;
  l->bad = SIMPLER_OK;
  for (;;) {
    uint64_t word = 5;
    simpler_callable *callable = l->callable;
    if (l->churn) {
      const simpler_image image = {l->path, NULL, 0};
      simpler_callable_desc desc = SIMPLER_CALLABLE_DESC_INIT;
      desc.images = &image;
      desc.image_count = 1;
      l->last = simpler_worker_register(l->worker, &desc, &callable, NULL);
      if (l->last != SIMPLER_OK) break;
    }
    l->last = api_run(l->worker, callable, SIMPLER_CHIP_ANY, &word, 1, NULL, 0, NULL);
    if (l->last != SIMPLER_OK) break;
    if (word != 6) l->bad = SIMPLER_INTERNAL;
    if (l->churn) {
      l->last = simpler_worker_unregister(l->worker, callable, NULL);
      if (l->last != SIMPLER_OK) break;
    }
    __atomic_fetch_add(&l->rounds, 1, __ATOMIC_SEQ_CST);
  }
  if (l->last != SIMPLER_CLOSED && l->last != SIMPLER_CANCELLED) l->bad = l->last;
  return NULL;
}

static void destroy_under_load(void **state, int churn, int repeats) {
  int repeat, i;
  for (repeat = 0; repeat < repeats; repeat++) {
    simpler_worker_options options = api_options(*state, 2);
    simpler_worker *worker;
    simpler_callable *callable;
    pthread_t threads[4];
    loop loops[4];
    assert_ok(simpler_worker_create(&options, &worker, &err));
    callable = api_register(worker, "add_1");
    memset(loops, 0, sizeof loops);
    for (i = 0; i < 4; i++) {
      loops[i].worker = worker;
      loops[i].callable = callable;
      loops[i].churn = churn;
      loops[i].path = TEST_CALLABLE_DIR "/add_1.so";
      pthread_create(&threads[i], NULL, run_until_refused, &loops[i]);
    }
    api_wait_for_word(&loops[repeat % 4].rounds, (uint64_t)repeat % 7);
    assert_ok(simpler_worker_destroy(worker, &err));
    for (i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (i = 0; i < 4; i++) assert_string_equal(simpler_status_name(loops[i].bad), "OK");
  }
}

/* C23 */
static void C23_destroy_while_four_threads_run(void **state) { destroy_under_load(state, 0, api_is_sanitized() ? 15 : 50); }
/* P74, P89 */
static void P74_destroy_while_four_threads_register_and_unregister(void **state) {
  destroy_under_load(state, 1, api_is_sanitized() ? 15 : 50);
}

/* ---- logs ------------------------------------------------------------------------------------------------------------- */

typedef struct log_state {
  sem_t said;
  simpler_worker *worker;
  int freed;
  int records;
  simpler_status inside; /* of a call from within the callback */
} log_state;

static void on_log(simpler_log_level level, const char *text, void *user_data) {
  log_state *l = user_data;
  l->records++;
  if (strstr(text, "hello from a kernel") == NULL || strchr(text, '\n') != NULL || level != SIMPLER_LOG_WARNING) return;
  if (l->worker != NULL) {
    simpler_buffer *buffer;
    simpler_version();
    l->inside = simpler_buffer_create(l->worker, 64, &buffer, NULL);
  }
  sem_post(&l->said);
}
static void on_log_free(void *user_data) { ((log_state *)user_data)->freed++; }

/* C32: calls from within the callback are refused and cannot deadlock. */
static void C32_logs_of_kernels_reach_the_callback(void **state) {
  simpler_worker_options options = api_options(*state, 1);
  simpler_worker *worker;
  log_state l = {.inside = SIMPLER_INTERNAL};
  sem_init(&l.said, 0, 0);
  options.log = on_log;
  options.log_user_data = &l;
  options.log_free = on_log_free;
  worker = api_start_with(*state, &options);
  l.worker = worker;
  assert_ok(api_run(worker, api_register_kernel(worker, "say"), 0, NULL, 0, NULL, 0, &err));
  sem_wait(&l.said);
  assert_int_equal(l.freed, 0);
  assert_ok(simpler_worker_destroy(worker, &err));
  assert_int_equal(l.freed, 1);
  assert_int_equal(l.inside, SIMPLER_BUSY);
  sem_destroy(&l.said);
}

static void log_free_is_called_once_when_create_fails(void **state) {
  simpler_worker_options options = api_options(*state, 1);
  simpler_worker *worker;
  log_state l = {.inside = SIMPLER_OK};
  options.log = on_log;
  options.log_user_data = &l;
  options.log_free = on_log_free;
  options.chip_path = "/nowhere/simpler-chip";
  options.window = 5;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "window", simpler_worker_create(&options, &worker, &err));
  assert_int_equal(l.freed, 1);
  if (api_is_in_process(*state)) return;
  options.window = 0;
  assert_fails(SIMPLER_NOT_FOUND, "", simpler_worker_create(&options, &worker, &err));
  assert_int_equal(l.freed, 2);
}

static void quiet_workers_log_nothing(void **state) {
  simpler_worker_options options = api_options(*state, 1);
  simpler_worker *worker;
  log_state l = {.inside = SIMPLER_OK};
  options.log = on_log;
  options.log_user_data = &l;
  options.log_level = SIMPLER_LOG_ERROR;
  worker = api_start_with(*state, &options);
  assert_ok(api_run(worker, api_register_kernel(worker, "say"), 0, NULL, 0, NULL, 0, &err));
  assert_ok(simpler_worker_destroy(worker, &err));
  assert_int_equal(l.records, 0);
}

/* ---- what a worker does to the process ---------------------------------------------------------------------------------- */

/* C31 */
static void C31_signal_handlers_are_left_alone(void **state) {
  struct sigaction before[65], after[65];
  int s;
  memset(before, 0, sizeof before);
  memset(after, 0, sizeof after);
  for (s = 1; s < 65; s++) sigaction(s, NULL, &before[s]);
  {
    simpler_worker *worker = api_start(*state, 1);
    for (s = 1; s < 65; s++) {
      sigaction(s, NULL, &after[s]);
      if (after[s].sa_handler != before[s].sa_handler) fail_msg("the handler of signal %d has changed", s);
    }
    assert_ok(simpler_worker_destroy(worker, &err));
  }
}

/* A host that ignores SIGCHLD has no zombies, and so no exit status for us. */
static void a_host_that_ignores_sigchld_is_fine(void **state) {
  struct sigaction ignore, before;
  memset(&ignore, 0, sizeof ignore);
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGCHLD, &ignore, &before);
  works(*state);
  sigaction(SIGCHLD, &before, NULL);
}

/* C06: no descriptor of ours reaches programs that the host starts. */
static void C06_descriptors_are_closed_on_exec(void **state) {
  bool was_open[1024] = {false};
  int fd;
  for (fd = 0; fd < 1024; fd++) was_open[fd] = fcntl(fd, F_GETFD) >= 0;
  {
    simpler_worker *worker = api_start(*state, 2);
    simpler_buffer *buffer;
    api_register_kernel(worker, "nothing");
    assert_ok(simpler_buffer_create(worker, 4096, &buffer, &err));
    for (fd = 0; fd < 1024; fd++) {
      const int flags = fcntl(fd, F_GETFD);
      if (!was_open[fd] && flags >= 0 && (flags & FD_CLOEXEC) == 0) fail_msg("descriptor %d stays open on exec", fd);
    }
  }
}

/* Kernel code is never mapped executable in the host, unless chips are in-process. */
static void callables_are_not_loaded_into_the_host(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  uint64_t word = 0;
  FILE *maps;
  char line[1024];
  assert_ok(api_run(worker, api_register(worker, "add_7"), 0, &word, 1, NULL, 0, &err));
  assert_int_equal(word, 7);
  maps = fopen("/proc/self/maps", "re");
  assert_non_null(maps);
  while (fgets(line, sizeof line, maps) != NULL) {
    if (strstr(line, " r-xp ") != NULL && (strstr(line, "memfd:") != NULL || strstr(line, "add_7") != NULL)) {
      fclose(maps);
      fail_msg("executable in the host: %s", line);
    }
  }
  fclose(maps);
}

static long thread_count(int64_t pid) {
  char path[64], line[256];
  long threads = -1;
  FILE *status;
  snprintf(path, sizeof path, "/proc/%lld/status", (long long)pid);
  status = fopen(path, "re");
  if (status == NULL) return -1;
  while (fgets(line, sizeof line, status) != NULL) {
    if (strncmp(line, "Threads:", 8) == 0) threads = atol(line + 8);
  }
  fclose(status);
  return threads;
}

/* P137 */
static void P137_a_chip_process_has_few_threads(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  const uint64_t n = 1000;
  uint64_t words[64] = {0};
  cpu_set_t cpus;
  assert_ok(api_run(worker, api_register_orchestration(worker, "orch_independent"), 0, words, 64, &n, 1, &err));
  sched_getaffinity(0, sizeof cpus, &cpus);
  assert_in_range(thread_count(api_chip_pid(worker, 0)), 1, CPU_COUNT(&cpus) + 4 + (api_is_sanitized() ? 1 : 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      SIMPLER_TEST(version_is_that_of_the_header),
      SIMPLER_TEST(statuses_have_names),
      SIMPLER_TEST(error_accessors_take_any_pointer),
      SIMPLER_TEST(errors_need_not_be_asked_for),
      SIMPLER_TEST(create_without_options_gives_one_chip_process),
      API_TEST_BOTH(options_choose_the_geometry),
      API_TEST_BOTH(P26_bad_options_are_refused_by_name),
      API_TEST_BOTH(P26_too_many_chips_are_refused),
      API_TEST(create_needs_an_out_parameter),
      API_TEST_BOTH(C19_struct_sizes_are_checked),
      API_TEST_IN_PROCESS(C19_info_is_filled_up_to_its_size),
      API_TEST_BOTH(chip_pid_names_the_process_of_a_chip),
      API_TEST(C40_a_missing_chip_executable_is_named),
      API_TEST(C40_a_file_that_is_no_program_is_named),
      API_TEST(P08_a_chip_that_dies_at_its_start_is_named),
      API_TEST(P08_a_chip_that_is_not_ready_in_time_is_named),
      SIMPLER_TEST(C30_null_and_invented_workers_are_refused),
      API_TEST_BOTH(C30_handles_of_another_kind_are_refused),
      API_TEST_BOTH(C27_after_destroy_every_call_says_closed),
      API_TEST_BOTH(runs_stay_readable_after_destroy),
      API_TEST_BOTH(P82_handles_of_another_worker_are_refused),
      API_TEST_BOTH(a_forked_child_is_refused),
      API_TEST_BOTH(C37_a_hundred_workers_leave_nothing),
      API_TEST_BOTH(P10_assorted_workers_follow_each_other),
      API_TEST(P90_eight_chips_end_with_their_worker),
      API_TEST_BOTH(P91_destroy_from_four_threads_is_one_teardown),
      API_TEST_BOTH(destroy_waits_for_the_run_that_runs),
      API_TEST_BOTH(destroy_cancels_what_is_queued),
      API_TEST(P91_destroy_is_bounded_when_a_kernel_never_returns),
      API_TEST_BOTH(C23_destroy_while_four_threads_run),
      API_TEST_BOTH(P74_destroy_while_four_threads_register_and_unregister),
      API_TEST_BOTH(C32_logs_of_kernels_reach_the_callback),
      API_TEST_BOTH(log_free_is_called_once_when_create_fails),
      API_TEST_BOTH(quiet_workers_log_nothing),
      API_TEST_BOTH(C31_signal_handlers_are_left_alone),
      API_TEST(a_host_that_ignores_sigchld_is_fine),
      API_TEST_BOTH(C06_descriptors_are_closed_on_exec),
      API_TEST(callables_are_not_loaded_into_the_host),
      API_TEST(P137_a_chip_process_has_few_threads),
  };
  return api_run_tests(tests);
}
