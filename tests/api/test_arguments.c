/* Handles and arguments: NULL, ended, foreign, invented, inherited by fork; structs of other sizes; poisoned out-parameters.
 * Whatever a caller does, an error says what was wrong and nothing crashes. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api.h"

#define INVENTED(type, value) ((type *)(uintptr_t)(value))

static void C30_null_ends_nothing_and_is_no_error(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  assert_ok(simpler_worker_destroy(NULL, &err));
  assert_ok(simpler_worker_unregister(worker, NULL, &err));
  assert_ok(simpler_buffer_release(NULL, &err));
  assert_ok(simpler_run_release(NULL, &err));
  simpler_error_free(NULL);
}

static void null_arguments_are_named(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callable = api_register_kernel(worker, "increment");
  simpler_task task = SIMPLER_TASK_INIT;
  simpler_run *run;
  simpler_buffer *buffer;
  simpler_callable *other;
  simpler_callable_desc desc = SIMPLER_CALLABLE_DESC_INIT;
  simpler_worker_info info = SIMPLER_WORKER_INFO_INIT;
  int64_t pid;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "worker", simpler_worker_create(NULL, NULL, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "worker", simpler_worker_get_info(NULL, &info, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "info", simpler_worker_get_info(worker, NULL, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "worker", simpler_worker_chip_pid(NULL, 0, &pid, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "pid", simpler_worker_chip_pid(worker, 0, NULL, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "chip", simpler_worker_chip_pid(worker, 1, &pid, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "worker", simpler_worker_register(NULL, &desc, &other, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "desc", simpler_worker_register(worker, NULL, &other, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "callable", simpler_worker_register(worker, &desc, NULL, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "image_count", simpler_worker_register(worker, &desc, &other, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "worker", simpler_worker_unregister(NULL, callable, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "callable", simpler_callable_get_info(NULL, NULL, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "info", simpler_callable_get_info(callable, NULL, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "worker", simpler_buffer_create(NULL, 1, &buffer, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "buffer", simpler_buffer_create(worker, 1, NULL, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "bytes", simpler_buffer_create(worker, 0, &buffer, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "worker", simpler_worker_submit(NULL, &task, NULL, &run, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "task", simpler_worker_submit(worker, NULL, NULL, &run, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "callable", simpler_worker_submit(worker, &task, NULL, &run, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "worker", simpler_worker_run(NULL, &task, NULL, &err));
  task.callable = callable;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "run", simpler_worker_submit(worker, &task, NULL, NULL, &err));
  task.tensor_count = 1;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "tensors", simpler_worker_submit(worker, &task, NULL, &run, &err));
  task.tensor_count = 0;
  task.scalar_count = 1;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "scalars", simpler_worker_submit(worker, &task, NULL, &run, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "run", simpler_run_wait(NULL, 0, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "run", simpler_run_get_stats(NULL, NULL, &err));
  assert_null(simpler_buffer_data(NULL));
  assert_int_equal(simpler_buffer_bytes(NULL), 0);
  /* An error object is optional everywhere. */
  assert_int_equal(simpler_worker_get_info(NULL, NULL, NULL), SIMPLER_INVALID_ARGUMENT);
}

static void failing_calls_clear_their_out_parameters(void **state) {
  simpler_worker *worker = INVENTED(simpler_worker, 99);
  simpler_callable *callable = INVENTED(simpler_callable, 99);
  simpler_buffer *buffer = INVENTED(simpler_buffer, 99);
  simpler_run *run = INVENTED(simpler_run, 99);
  simpler_error *error = INVENTED(simpler_error, 99);
  simpler_worker_options options = api_options(*state, 1000000);
  int64_t pid = 99;
  assert_int_not_equal(simpler_worker_create(&options, &worker, &error), SIMPLER_OK);
  assert_null(worker);
  assert_non_null(error);
  assert_int_equal(simpler_error_code(error), SIMPLER_CAPACITY_CHIPS);
  simpler_error_free(error);
  assert_int_not_equal(simpler_worker_register(NULL, NULL, &callable, NULL), SIMPLER_OK);
  assert_null(callable);
  assert_int_not_equal(simpler_buffer_create(NULL, 1, &buffer, NULL), SIMPLER_OK);
  assert_null(buffer);
  assert_int_not_equal(simpler_worker_submit(NULL, NULL, NULL, &run, NULL), SIMPLER_OK);
  assert_null(run);
  assert_int_not_equal(simpler_worker_chip_pid(NULL, 0, &pid, NULL), SIMPLER_OK);
  assert_int_equal(pid, 0);
  error = INVENTED(simpler_error, 99);
  assert_int_equal(simpler_buffer_release(NULL, &error), SIMPLER_OK);
  assert_null(error);
}

static void P82_invented_handles_are_refused(void **state) {
  static const uint64_t values[] = {1, 2, 3, 8, 16, 0x1003, 0xdeadbeef, 0x7fffffffffff, UINT64_MAX, UINT64_MAX - 1};
  simpler_worker *worker = api_start(*state, 1);
  size_t i;
  for (i = 0; i < sizeof values / sizeof values[0]; i++) {
    simpler_worker_info info = SIMPLER_WORKER_INFO_INIT;
    simpler_callable_info callable_info = SIMPLER_CALLABLE_INFO_INIT;
    simpler_run_stats stats = SIMPLER_RUN_STATS_INIT;
    simpler_task task = SIMPLER_TASK_INIT;
    const uint64_t v = values[i];
    assert_fails(SIMPLER_INVALID_HANDLE, "worker", simpler_worker_get_info(INVENTED(simpler_worker, v), &info, &err));
    assert_fails(SIMPLER_INVALID_HANDLE, "worker", simpler_worker_destroy(INVENTED(simpler_worker, v), &err));
    assert_fails(SIMPLER_INVALID_HANDLE, "callable", simpler_worker_unregister(worker, INVENTED(simpler_callable, v), &err));
    assert_fails(SIMPLER_INVALID_HANDLE, "callable",
                 simpler_callable_get_info(INVENTED(simpler_callable, v), &callable_info, &err));
    assert_fails(SIMPLER_INVALID_HANDLE, "buffer", simpler_buffer_release(INVENTED(simpler_buffer, v), &err));
    assert_fails(SIMPLER_INVALID_HANDLE, "run", simpler_run_wait(INVENTED(simpler_run, v), 0, &err));
    assert_fails(SIMPLER_INVALID_HANDLE, "run", simpler_run_get_stats(INVENTED(simpler_run, v), &stats, &err));
    assert_fails(SIMPLER_INVALID_HANDLE, "run", simpler_run_release(INVENTED(simpler_run, v), &err));
    task.callable = INVENTED(simpler_callable, v);
    assert_fails(SIMPLER_INVALID_HANDLE, "callable", simpler_worker_run(worker, &task, NULL, &err));
    assert_null(simpler_buffer_data(INVENTED(simpler_buffer, v)));
    assert_int_equal(simpler_error_code(INVENTED(simpler_error, v)), SIMPLER_OK);
    assert_string_equal(simpler_error_message(INVENTED(simpler_error, v)), "");
    simpler_error_free(INVENTED(simpler_error, v));
  }
}

static void C30_ended_handles_are_refused_also_when_their_place_is_taken(void **state) {
  simpler_worker *worker = api_start(*state, 1), *closed = worker;
  simpler_callable *callable = api_register_kernel(worker, "increment"), *again;
  simpler_buffer *buffer, *other;
  simpler_worker_info info = SIMPLER_WORKER_INFO_INIT;
  simpler_task task = SIMPLER_TASK_INIT;
  simpler_error *error = NULL;
  assert_ok(simpler_buffer_create(worker, 64, &buffer, &err));
  assert_ok(simpler_buffer_release(buffer, &err));
  assert_ok(simpler_buffer_create(worker, 64, &other, &err));
  assert_ptr_not_equal(buffer, other);
  assert_fails(SIMPLER_INVALID_HANDLE, "buffer", simpler_buffer_release(buffer, &err));
  assert_null(simpler_buffer_data(buffer));
  assert_ok(simpler_worker_unregister(worker, callable, &err));
  again = api_register_kernel(worker, "increment");
  assert_ptr_not_equal(callable, again);
  assert_fails(SIMPLER_INVALID_HANDLE, "callable", simpler_worker_unregister(worker, callable, &err));
  task.callable = callable;
  assert_fails(SIMPLER_INVALID_HANDLE, "callable", simpler_worker_run(worker, &task, NULL, &err));
  assert_int_equal(simpler_worker_run(NULL, NULL, NULL, &error), SIMPLER_INVALID_ARGUMENT);
  simpler_error_free(error);
  simpler_error_free(error);
  assert_string_equal(simpler_error_message(error), "");

  assert_ok(simpler_worker_destroy(worker, &err));
  worker = api_start(*state, 1);
  assert_ptr_not_equal(worker, closed);
  assert_fails(SIMPLER_CLOSED, "closed", simpler_worker_destroy(closed, &err));
  assert_fails(SIMPLER_CLOSED, "closed", simpler_worker_get_info(closed, &info, &err));
  assert_fails(SIMPLER_CLOSED, "closed", simpler_buffer_create(closed, 64, &buffer, &err));
  assert_fails(SIMPLER_CLOSED, "closed", simpler_worker_run(closed, &task, NULL, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "buffer", simpler_buffer_release(other, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "callable", simpler_callable_get_info(again, NULL, &err));
}

static void P82_handles_of_another_worker_or_kind_are_refused(void **state) {
  simpler_worker *first = api_start(*state, 1), *second = api_start(*state, 1);
  simpler_callable *callable = api_register_kernel(first, "increment");
  simpler_buffer *buffer;
  simpler_tensor_arg tensor;
  simpler_task task = SIMPLER_TASK_INIT;
  simpler_worker_info info = SIMPLER_WORKER_INFO_INIT;
  assert_ok(simpler_buffer_create(first, 64, &buffer, &err));
  task.callable = callable;
  assert_fails(SIMPLER_INVALID_HANDLE, "another worker", simpler_worker_run(second, &task, NULL, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "another worker", simpler_worker_unregister(second, callable, &err));
  task.callable = api_register_kernel(second, "increment");
  tensor = api_buffer_words(buffer);
  task.tensors = &tensor;
  task.tensor_count = 1;
  assert_fails(SIMPLER_INVALID_HANDLE, "another worker", simpler_worker_run(second, &task, NULL, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "worker", simpler_worker_get_info((simpler_worker *)(void *)callable, &info, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "buffer", simpler_buffer_release((simpler_buffer *)(void *)first, &err));
}

/* C19: struct_size of an older, a newer and a broken caller. */
static void C19_struct_sizes_of_other_versions(void **state) {
  struct {
    simpler_worker_options known;
    char tail[64];
  } newer;
  struct {
    simpler_worker_info known;
    char tail[16];
  } info;
  simpler_worker *worker;
  simpler_worker_options options = api_options(*state, 1);
  memset(&newer, 0, sizeof newer);
  newer.known = options;
  newer.known.struct_size = sizeof newer;
  assert_ok(simpler_worker_create(&newer.known, &worker, &err));
  memset(&info, 0x55, sizeof info);
  info.known.struct_size = sizeof info.known - sizeof info.known.gm_bytes_used;
  assert_ok(simpler_worker_get_info(worker, &info.known, &err));
  assert_int_equal(info.known.chips, 1);
  assert_int_equal(info.known.gm_bytes_used, 0x5555555555555555); /* beyond what the caller says it knows */
  info.known.struct_size = sizeof info;
  assert_ok(simpler_worker_get_info(worker, &info.known, &err));
  assert_int_equal(info.known.struct_size, sizeof info);
  assert_int_equal(info.tail[0], 0x55);
  info.known.struct_size = 0;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "struct_size", simpler_worker_get_info(worker, &info.known, &err));
  assert_ok(simpler_worker_destroy(worker, &err));
  newer.tail[63] = 1;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "newer", simpler_worker_create(&newer.known, &worker, &err));
  options.struct_size = offsetof(simpler_worker_options, isolation); /* an older caller: the rest are defaults */
  assert_ok(simpler_worker_create(&options, &worker, &err));
  assert_ok(simpler_worker_destroy(worker, &err));
  options.struct_size = 0;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "struct_size is 0", simpler_worker_create(&options, &worker, &err));
  options.struct_size = SIZE_MAX;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "struct_size", simpler_worker_create(&options, &worker, &err));
}

static void C21_sizes_and_offsets_are_as_released(void **state) {
  (void)state;
  _Static_assert(sizeof(simpler_image) == 24 && sizeof(simpler_kernel_desc) == 24, "frozen");
  _Static_assert(sizeof(simpler_tensor_arg) == 168 && offsetof(simpler_tensor_arg, shape) == 40, "frozen");
  _Static_assert(offsetof(simpler_worker_options, log_free) == 104, "only the end may grow");
  _Static_assert(offsetof(simpler_task, scalar_count) == 40, "only the end may grow");
  _Static_assert(offsetof(simpler_callable_desc, orchestration_image) == 72, "only the end may grow");
  assert_int_equal(simpler_version() >> 16, SIMPLER_VERSION_MAJOR);
  assert_string_equal(simpler_status_name(SIMPLER_OK), "OK");
  assert_string_equal(simpler_status_name(SIMPLER_SYSTEM_ERROR), "SYSTEM_ERROR");
  assert_string_equal(simpler_status_name(12345), "UNKNOWN");
}

/* Everything in a child made by fork says WRONG_PROCESS, and its exit does not disturb the parent's worker. */
static void a_forked_child_is_refused_and_does_no_harm(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callable = api_register_kernel(worker, "increment");
  uint64_t word = 0;
  int status = 0;
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    simpler_worker *other = NULL;
    simpler_task task = SIMPLER_TASK_INIT;
    int wrong = 0;
    task.callable = callable;
    wrong |= simpler_worker_run(worker, &task, NULL, NULL) != SIMPLER_WRONG_PROCESS;
    wrong |= simpler_worker_destroy(worker, NULL) != SIMPLER_WRONG_PROCESS;
    wrong |= simpler_worker_unregister(worker, callable, NULL) != SIMPLER_WRONG_PROCESS;
    wrong |= simpler_worker_create(NULL, &other, NULL) != SIMPLER_WRONG_PROCESS;
    wrong |= other != NULL;
    _exit(wrong);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_ok(api_run(worker, callable, 0, &word, 1, NULL, 0, &err));
  assert_int_equal(word, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      API_TEST_BOTH(C30_null_ends_nothing_and_is_no_error),
      API_TEST_BOTH(null_arguments_are_named),
      API_TEST_BOTH(failing_calls_clear_their_out_parameters),
      API_TEST_BOTH(P82_invented_handles_are_refused),
      API_TEST_BOTH(C30_ended_handles_are_refused_also_when_their_place_is_taken),
      API_TEST_BOTH(P82_handles_of_another_worker_or_kind_are_refused),
      API_TEST_BOTH(C19_struct_sizes_of_other_versions),
      API_TEST(C21_sizes_and_offsets_are_as_released),
      API_TEST(a_forked_child_is_refused_and_does_no_harm),
  };
  return api_run_tests(tests);
}
