#include "api.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../callables/work.h"

#ifndef TEST_CALLABLE_DIR
#error "TEST_CALLABLE_DIR is the folder of the callables"
#endif

/* ---- fixture --------------------------------------------------------------------------------------------------------- */

enum {
  WORKERS_MAX = 64
};

/* Gates of the test that runs; opened at its end, so that a failed test does not leave a chip that cannot stop. */
static simpler_buffer *gates[64];
static size_t gate_count;

struct api_fixture {
  simpler_isolation isolation;
  size_t count;
  simpler_worker *workers[WORKERS_MAX];
};

static int set_up(void **state, simpler_isolation isolation) {
  api_fixture *fixture = calloc(1, sizeof *fixture);
  if (fixture == NULL) return -1;
  fixture->isolation = isolation;
  gate_count = 0;
  *state = fixture;
  return 0;
}
static int set_up_processes(void **state) { return set_up(state, SIMPLER_ISOLATION_PROCESS); }
static int set_up_in_process(void **state) { return set_up(state, SIMPLER_ISOLATION_IN_PROCESS); }

static int tear_down(void **state) {
  api_fixture *fixture = *state;
  size_t i;
  for (i = 0; i < gate_count; i++) {
    uint64_t *words = simpler_buffer_data(gates[i]);
    if (words != NULL) __atomic_store_n(&words[0], 1, __ATOMIC_SEQ_CST);
  }
  /* Those that the test has destroyed are refused as dead handles, which does no harm. */
  for (i = 0; i < fixture->count; i++) simpler_worker_destroy(fixture->workers[i], NULL);
  free(fixture);
  return 0;
}

simpler_test_fixture api_on_processes = {set_up_processes, tear_down};
simpler_test_fixture api_in_process = {set_up_in_process, tear_down};

void api_warm_up(void) {
  simpler_worker *worker = NULL;
  simpler_worker_create(NULL, &worker, NULL);
  simpler_worker_destroy(worker, NULL);
}

bool api_is_in_process(void *state) { return ((api_fixture *)state)->isolation == SIMPLER_ISOLATION_IN_PROCESS; }

bool api_is_sanitized(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return true;
#endif
#endif
  return false;
}

uint64_t api_patience_ns(uint64_t normal) { return api_is_sanitized() ? 15 * normal : normal; }

/* ---- checked calls --------------------------------------------------------------------------------------------------- */

static void print_call(const char *call, simpler_status status, const simpler_error *error) {
  print_error("%s\n  returned %s (%d): %s\n", call, simpler_status_name(status), (int)status, simpler_error_message(error));
}

void api_check_ok(simpler_status status, simpler_error *error, const char *call, const char *file, int line) {
  if (status == SIMPLER_OK && error == NULL) return;
  print_call(call, status, error);
  simpler_error_free(error);
  if (status == SIMPLER_OK) print_error("  stored an error although it returned OK\n");
  _fail(file, line);
}

void api_check_fails(simpler_status expected, const char *part, simpler_status status, simpler_error *error,
                     const char *call, const char *file, int line) {
  bool right = status == expected && error != NULL && simpler_error_code(error) == status &&
               strstr(simpler_error_message(error), part) != NULL && simpler_error_message(error)[0] != '\0';
  if (!right) {
    print_call(call, status, error);
    if (error == NULL) print_error("  stored no error\n");
    if (error != NULL && simpler_error_code(error) != status) {
      print_error("  its error has the code %s\n", simpler_status_name(simpler_error_code(error)));
    }
    print_error("  expected was %s with a text that contains '%s'\n", simpler_status_name(expected), part);
  }
  simpler_error_free(error);
  if (!right) _fail(file, line);
}

void api_check_message(const simpler_error *error, const char *part, const char *file, int line) {
  if (strstr(simpler_error_message(error), part) != NULL) return;
  print_error("'%s' is not in the message '%s'\n", part, simpler_error_message(error));
  _fail(file, line);
}

/* ---- workers, callables ------------------------------------------------------------------------------------------------ */

simpler_worker_options api_options(void *state, uint32_t chips) {
  simpler_worker_options options = SIMPLER_WORKER_OPTIONS_INIT;
  options.chips = chips;
  options.isolation = ((api_fixture *)state)->isolation;
  return options;
}

simpler_worker *api_start_with(void *state, simpler_worker_options *options) {
  api_fixture *fixture = state;
  simpler_worker *worker;
  options->isolation = fixture->isolation;
  assert_true(fixture->count < WORKERS_MAX);
  assert_ok(simpler_worker_create(options, &worker, &err));
  assert_non_null(worker);
  fixture->workers[fixture->count++] = worker;
  return worker;
}

simpler_worker *api_start(void *state, uint32_t chips) {
  simpler_worker_options options = api_options(state, chips);
  return api_start_with(state, &options);
}

const char *api_path(const char *name) {
  static char paths[4][1024];
  static unsigned next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s.so", TEST_CALLABLE_DIR, name);
  return path;
}

simpler_callable_desc *api_describe(api_desc *d, const char *name) {
  const simpler_callable_desc init = SIMPLER_CALLABLE_DESC_INIT;
  memset(d, 0, sizeof *d);
  d->desc = init;
  d->image.path = api_path(name);
  d->desc.images = &d->image;
  d->desc.image_count = 1;
  return &d->desc;
}

static const simpler_kernel_desc kKernels[] = {
#define DESCRIBE(id, name) {id, SIMPLER_CORE_AIV, 0, 0, #name},
    WORK_KERNELS(DESCRIBE)
#undef DESCRIBE
};
enum {
  KERNELS = sizeof kKernels / sizeof kKernels[0]
};

simpler_callable_desc *api_describe_kernel(api_desc *d, const char *symbol) {
  size_t i;
  api_describe(d, "work");
  for (i = 0; i < KERNELS; i++) {
    if (strcmp(kKernels[i].symbol, symbol) == 0) d->kernels[d->desc.kernel_count++] = kKernels[i];
  }
  assert_int_equal(d->desc.kernel_count, 1);
  d->desc.kernels = d->kernels;
  d->desc.name = symbol;
  return &d->desc;
}

simpler_callable_desc *api_describe_orchestration(api_desc *d, const char *name, const char *symbol) {
  api_describe(d, name);
  if (strcmp(name, "work") == 0) {
    memcpy(d->kernels, kKernels, sizeof kKernels);
    d->desc.kernel_count = KERNELS;
  } else {
    const simpler_kernel_desc increment = {5, SIMPLER_CORE_AIV, 0, 0, "increment"};
    d->kernels[0] = increment;
    d->desc.kernel_count = 1;
  }
  d->desc.kernels = d->kernels;
  d->desc.orchestration_symbol = symbol;
  d->desc.name = symbol;
  return &d->desc;
}

static simpler_callable *register_desc(simpler_worker *worker, const simpler_callable_desc *desc) {
  simpler_callable *callable;
  assert_ok(simpler_worker_register(worker, desc, &callable, &err));
  assert_non_null(callable);
  return callable;
}

simpler_callable *api_register(simpler_worker *worker, const char *name) {
  api_desc d;
  return register_desc(worker, api_describe(&d, name));
}
simpler_callable *api_register_kernel(simpler_worker *worker, const char *symbol) {
  api_desc d;
  return register_desc(worker, api_describe_kernel(&d, symbol));
}
simpler_callable *api_register_orchestration(simpler_worker *worker, const char *symbol) {
  api_desc d;
  return register_desc(worker, api_describe_orchestration(&d, "work", symbol));
}

simpler_callable_info api_callable_info(simpler_callable *callable) {
  simpler_callable_info info = SIMPLER_CALLABLE_INFO_INIT;
  assert_ok(simpler_callable_get_info(callable, &info, &err));
  return info;
}

/* ---- runs -------------------------------------------------------------------------------------------------------------- */

simpler_tensor_arg api_words(uint64_t *words, uint64_t count) {
  return simpler_tensor_arg_make(words, SIMPLER_TAG_INOUT, SIMPLER_DTYPE_UINT64, 1, &count);
}
simpler_tensor_arg api_buffer_words(simpler_buffer *buffer) {
  const uint64_t count = simpler_buffer_bytes(buffer) / 8;
  return simpler_tensor_arg_make_in_buffer(buffer, 0, SIMPLER_TAG_INOUT, SIMPLER_DTYPE_UINT64, 1, &count);
}

simpler_task api_task(simpler_callable *callable, int32_t chip, const simpler_tensor_arg *tensors, uint32_t tensor_count,
                      const uint64_t *scalars, uint32_t scalar_count) {
  simpler_task task = SIMPLER_TASK_INIT;
  task.callable = callable;
  task.chip = chip;
  task.tensors = tensors;
  task.tensor_count = tensor_count;
  task.scalars = scalars;
  task.scalar_count = scalar_count;
  return task;
}

simpler_status api_run(simpler_worker *worker, simpler_callable *callable, int32_t chip, uint64_t *words,
                       uint64_t word_count, const uint64_t *scalars, uint32_t scalar_count, simpler_error **err) {
  const simpler_tensor_arg tensor = api_words(words, word_count);
  const simpler_task task = api_task(callable, chip, &tensor, words != NULL, scalars, scalar_count);
  return simpler_worker_run(worker, &task, NULL, err);
}

static simpler_run *submit_tensor(simpler_worker *worker, simpler_callable *callable, int32_t chip,
                                  const simpler_tensor_arg *tensor, uint32_t tensor_count, const uint64_t *scalars,
                                  uint32_t scalar_count) {
  const simpler_task task = api_task(callable, chip, tensor, tensor_count, scalars, scalar_count);
  simpler_run *run;
  assert_ok(simpler_worker_submit(worker, &task, NULL, &run, &err));
  assert_non_null(run);
  return run;
}

simpler_run *api_submit(simpler_worker *worker, simpler_callable *callable, int32_t chip, uint64_t *words,
                        uint64_t word_count, const uint64_t *scalars, uint32_t scalar_count) {
  const simpler_tensor_arg tensor = api_words(words, word_count);
  return submit_tensor(worker, callable, chip, &tensor, words != NULL, scalars, scalar_count);
}
simpler_run *api_submit_buffer(simpler_worker *worker, simpler_callable *callable, int32_t chip, simpler_buffer *buffer,
                               const uint64_t *scalars, uint32_t scalar_count) {
  const simpler_tensor_arg tensor = api_buffer_words(buffer);
  return submit_tensor(worker, callable, chip, &tensor, 1, scalars, scalar_count);
}

void api_finish(simpler_run *run) {
  assert_ok(simpler_run_wait(run, SIMPLER_FOREVER, &err));
  assert_ok(simpler_run_release(run, &err));
}

simpler_run_stats api_stats(simpler_run *run) {
  simpler_run_stats stats = SIMPLER_RUN_STATS_INIT;
  assert_ok(simpler_run_get_stats(run, &stats, &err));
  return stats;
}

/* ---- gates --------------------------------------------------------------------------------------------------------------- */

api_gate api_gate_make(simpler_worker *worker) {
  api_gate gate;
  assert_ok(simpler_buffer_create(worker, 64, &gate.buffer, &err));
  assert_true(gate_count < sizeof gates / sizeof gates[0]);
  gates[gate_count++] = gate.buffer;
  gate.callable = api_register_kernel(worker, "gate");
  return gate;
}

simpler_run *api_gate_enter(simpler_worker *worker, api_gate *gate, int32_t chip) {
  uint64_t *words = simpler_buffer_data(gate->buffer);
  const uint64_t before = __atomic_load_n(&words[1], __ATOMIC_SEQ_CST);
  simpler_run *run = api_submit_buffer(worker, gate->callable, chip, gate->buffer, NULL, 0);
  if (!api_wait_for_word(&words[1], before + 1)) fail_msg("the kernel at the gate does not start");
  return run;
}

void api_gate_open(api_gate *gate) {
  uint64_t *words = simpler_buffer_data(gate->buffer);
  __atomic_store_n(&words[0], 1, __ATOMIC_SEQ_CST);
}

/* Kernels of a chip cannot wake the test: this is the one place where tests poll. */
bool api_wait_for_word(const uint64_t *word, uint64_t value) {
  const uint64_t end = api_now_ns() + 60000000000u;
  while (__atomic_load_n(word, __ATOMIC_SEQ_CST) < value) {
    if (api_now_ns() > end) return false;
    sched_yield();
  }
  return true;
}

uint64_t api_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- processes ------------------------------------------------------------------------------------------------------------ */

int64_t api_chip_pid(simpler_worker *worker, uint32_t chip) {
  int64_t pid;
  assert_ok(simpler_worker_chip_pid(worker, chip, &pid, &err));
  return pid;
}

int api_pidfd(int64_t pid) {
  const int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
  if (fd < 0) fail_msg("pidfd_open(%lld): %s", (long long)pid, strerror(errno));
  return fd;
}

bool api_ends_within(int pidfd, uint64_t timeout_ns) {
  struct pollfd entry = {pidfd, POLLIN, 0};
  int result;
  do {
    result = poll(&entry, 1, (int)(timeout_ns / 1000000));
  } while (result < 0 && errno == EINTR);
  return result == 1;
}
