/* api.h - for tests through simpler.h: workers that a failed test does not leave behind, and calls that are checked in one line.
 *
 *   static void runs_once(void **state) {
 *     simpler_worker *worker = api_start(*state, 2);
 *     simpler_callable *callable = api_register_kernel(worker, "increment");
 *     uint64_t words[4] = {0};
 *     assert_ok(api_run(worker, callable, 0, words, 4, NULL, 0, &err));
 *   }
 *   const struct CMUnitTest tests[] = {
 *       API_TEST(runs_once),             // chips as processes
 *       API_TEST_IN_PROCESS(runs_once),  // the same with chips in-process, named runs_once_in_process
 *   };
 *
 * All of it is for the thread of the test, except what says otherwise: cmocka's assertions leave by longjmp. */
#ifndef SIMPLER_TEST_API_H
#define SIMPLER_TEST_API_H

#include <stdbool.h>
#include <stdint.h>

#include "simpler.h"
#include "support.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tests ---------------------------------------------------------------------------------------------------------- */

typedef struct api_fixture api_fixture; /* what *state points to in a test */

extern simpler_test_fixture api_on_processes;
extern simpler_test_fixture api_in_process;
#define API_TEST(function) \
  { #function, function, simpler_test_setup, simpler_test_teardown, &api_on_processes }
#define API_TEST_IN_PROCESS(function) \
  { #function "_in_process", function, simpler_test_setup, simpler_test_teardown, &api_in_process }
/* Both. */
#define API_TEST_BOTH(function) API_TEST(function), API_TEST_IN_PROCESS(function)

/* simpler_run_tests after a worker has been made and closed once: what libuv keeps for the life of the process is then there,
 * and is not taken for something left behind. */
#define api_run_tests(tests) (api_warm_up(), simpler_run_tests(tests))
void api_warm_up(void);

/* Whether the chips of this test are in-process. */
bool api_is_in_process(void *state);

/* The test program and its chips are built with a sanitizer: slower, and a crash ends a process by exit, not by signal. */
bool api_is_sanitized(void);
/* `normal`, or much more under a sanitizer. */
uint64_t api_patience_ns(uint64_t normal);

/* ---- checked calls ---------------------------------------------------------------------------------------------------
 *
 * `call` is an expression with a status that passes &err as its last argument. */
#define assert_ok(call)                                           \
  do {                                                            \
    simpler_error *err = NULL;                                    \
    const simpler_status status_of_call = (call);                 \
    api_check_ok(status_of_call, err, #call, __FILE__, __LINE__); \
  } while (0)
/* The call fails with this status, and its error says so in a text that contains `part` (may be ""). */
#define assert_fails(expected, part, call)                                               \
  do {                                                                                   \
    simpler_error *err = NULL;                                                           \
    const simpler_status status_of_call = (call);                                        \
    api_check_fails((expected), (part), status_of_call, err, #call, __FILE__, __LINE__); \
  } while (0)
void api_check_ok(simpler_status status, simpler_error *error, const char *call, const char *file, int line);
void api_check_fails(simpler_status expected, const char *part, simpler_status status, simpler_error *error,
                     const char *call, const char *file, int line);
/* The text of the error contains `part`. */
#define assert_message(error, part) api_check_message((error), (part), __FILE__, __LINE__)
void api_check_message(const simpler_error *error, const char *part, const char *file, int line);

/* ---- workers, callables ---------------------------------------------------------------------------------------------- */

/* A worker in the mode of the test, destroyed after it if the test has not done so. At most 64 in one test. */
simpler_worker *api_start(void *state, uint32_t chips);
/* The same with options; their isolation is set. */
simpler_worker *api_start_with(void *state, simpler_worker_options *options);
/* Options with the isolation of the test, for tests that call simpler_worker_create by themselves. */
simpler_worker_options api_options(void *state, uint32_t chips);

/* Path of a callable, TEST_CALLABLE_DIR "/<name>.so". Static until the fourth next call. */
const char *api_path(const char *name);

/* Describes a shared object that describes itself. */
typedef struct api_desc {
  simpler_callable_desc desc; /* points to what follows: fill in and use in place */
  simpler_image image;
  simpler_kernel_desc kernels[32];
} api_desc;
simpler_callable_desc *api_describe(api_desc *d, const char *name);
/* Describes one kernel of work.so (work.h), without orchestration. */
simpler_callable_desc *api_describe_kernel(api_desc *d, const char *symbol);
/* Describes an orchestration of <name>.so with all kernels of work.so; `name` is "work", or "work_cxx" with its own kernel. */
simpler_callable_desc *api_describe_orchestration(api_desc *d, const char *name, const char *symbol);

/* The same, registered. */
simpler_callable *api_register(simpler_worker *worker, const char *name);
simpler_callable *api_register_kernel(simpler_worker *worker, const char *symbol);
simpler_callable *api_register_orchestration(simpler_worker *worker, const char *symbol);

simpler_callable_info api_callable_info(simpler_callable *callable);

/* ---- runs ------------------------------------------------------------------------------------------------------------ */

/* A one-dimensional uint64 tensor, INOUT: over host memory, and over a whole buffer. */
simpler_tensor_arg api_words(uint64_t *words, uint64_t count);
simpler_tensor_arg api_buffer_words(simpler_buffer *buffer);

/* A task on `chip`. What it points to must outlive it. */
simpler_task api_task(simpler_callable *callable, int32_t chip, const simpler_tensor_arg *tensors, uint32_t tensor_count,
                      const uint64_t *scalars, uint32_t scalar_count);

/* Runs a callable with one INOUT tensor of host words (none if words is NULL) and scalars. Any thread. */
simpler_status api_run(simpler_worker *worker, simpler_callable *callable, int32_t chip, uint64_t *words,
                       uint64_t word_count, const uint64_t *scalars, uint32_t scalar_count, simpler_error **err);
/* Submits the same. */
simpler_run *api_submit(simpler_worker *worker, simpler_callable *callable, int32_t chip, uint64_t *words,
                        uint64_t word_count, const uint64_t *scalars, uint32_t scalar_count);
/* The same with a whole buffer as its tensor. */
simpler_run *api_submit_buffer(simpler_worker *worker, simpler_callable *callable, int32_t chip, simpler_buffer *buffer,
                               const uint64_t *scalars, uint32_t scalar_count);
/* Waits, asserts success, releases. */
void api_finish(simpler_run *run);
simpler_run_stats api_stats(simpler_run *run);

/* ---- gates: kernels that run until the test lets them ------------------------------------------------------------------ */

typedef struct api_gate {
  simpler_buffer *buffer;
  simpler_callable *callable;
} api_gate;

/* The kernel `gate` with a buffer of its own. */
api_gate api_gate_make(simpler_worker *worker);
/* A run on `chip` that stands at the gate; returns when the kernel runs. */
simpler_run *api_gate_enter(simpler_worker *worker, api_gate *gate, int32_t chip);
void api_gate_open(api_gate *gate);

/* Waits until *word >= value, for at most 60 s; false then. Any thread. */
bool api_wait_for_word(const uint64_t *word, uint64_t value);

uint64_t api_now_ns(void);

/* ---- processes -------------------------------------------------------------------------------------------------------- */

int64_t api_chip_pid(simpler_worker *worker, uint32_t chip);
/* A descriptor that becomes readable when the process ends; the caller closes it. */
int api_pidfd(int64_t pid);
/* Whether the process behind a pidfd has ended within this time. */
bool api_ends_within(int pidfd, uint64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif /* SIMPLER_TEST_API_H */
