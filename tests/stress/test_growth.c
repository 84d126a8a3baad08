/* Nothing grows, however often something is done: memory, mappings, descriptors and threads of the host and of its chips.
 * ctest: TIMEOUT 600 LABELS inprocess */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api.h"

typedef struct size {
  long resident_kb, descriptors, mappings, threads;
} size;

static long count_entries(const char *folder) {
  DIR *dir = opendir(folder);
  long count = 0;
  if (dir == NULL) return -1;
  while (readdir(dir) != NULL) count++;
  closedir(dir);
  return count;
}

static size size_of_process(int64_t pid) {
  size s = {0, 0, 0, 0};
  char path[64], line[512];
  FILE *file;
  snprintf(path, sizeof path, "/proc/%lld/status", (long long)pid);
  file = fopen(path, "re");
  assert_non_null(file);
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, "VmRSS:", 6) == 0) s.resident_kb = atol(line + 6);
    if (strncmp(line, "Threads:", 8) == 0) s.threads = atol(line + 8);
  }
  fclose(file);
  snprintf(path, sizeof path, "/proc/%lld/maps", (long long)pid);
  file = fopen(path, "re");
  assert_non_null(file);
  while (fgets(line, sizeof line, file) != NULL) s.mappings += strchr(line, '\n') != NULL;
  fclose(file);
  snprintf(path, sizeof path, "/proc/%lld/fd", (long long)pid);
  s.descriptors = count_entries(path);
  return s;
}

/* What a chip drops after the end of a run may still be on its way out: it gets a little time. */
static void check_growth(const char *who, int64_t pid, size before) {
  const uint64_t end = api_now_ns() + 10000000000u;
  size after = size_of_process(pid);
  while ((after.descriptors > before.descriptors || after.threads > before.threads) && api_now_ns() < end) {
    sched_yield();
    after = size_of_process(pid);
  }
  print_message("%s: %ld -> %ld KiB, %ld -> %ld mappings, %ld -> %ld descriptors, %ld -> %ld threads\n", who,
                before.resident_kb, after.resident_kb, before.mappings, after.mappings, before.descriptors,
                after.descriptors, before.threads, after.threads);
  assert_true(after.descriptors <= before.descriptors);
  assert_true(after.threads <= before.threads);
  assert_true(after.mappings <= before.mappings + 8);
  if (!api_is_sanitized()) assert_true(after.resident_kb <= before.resident_kb + 1024);
}

typedef void (*round_fn)(simpler_worker *worker, void *argument, int round);

static void repeat(simpler_worker *worker, round_fn round, void *argument, int warm_up, int rounds) {
  const int64_t pid = api_chip_pid(worker, 0);
  simpler_callable *increment = api_register_kernel(worker, "increment");
  uint64_t word = 0;
  size host, chip;
  int i;
  /* Goes once round every ring, whose pages are taken when they are first used. */
  for (i = 0; i < 10000; i++) assert_ok(api_run(worker, increment, 0, &word, 1, NULL, 0, &err));
  assert_ok(simpler_worker_unregister(worker, increment, &err));
  for (i = 0; i < warm_up; i++) round(worker, argument, i);
  host = size_of_process(getpid());
  chip = size_of_process(pid);
  for (i = 0; i < rounds; i++) round(worker, argument, i);
  check_growth("host", getpid(), host);
  check_growth("chip", pid, chip);
}

/* P79 */
static void cycle(simpler_worker *worker, void *argument, int round) {
  const uint64_t k = 1 + (uint64_t)round % 12;
  simpler_callable *callable;
  uint64_t word = 0;
  char name[24];
  (void)argument;
  snprintf(name, sizeof name, "add_%d", (int)k);
  callable = api_register(worker, name);
  assert_ok(api_run(worker, callable, 0, &word, 1, NULL, 0, &err));
  assert_int_equal(word, k);
  assert_ok(simpler_worker_unregister(worker, callable, &err));
}
static void P79_5000_cycles_of_register_run_unregister(void **state) {
  repeat(api_start(*state, 2), cycle, NULL, 100, api_is_sanitized() ? 300 : 5000);
}

/* P80: objects in C++ with thread-local and unique state. */
static void cycle_cxx(simpler_worker *worker, void *argument, int round) {
  simpler_callable *callable;
  uint64_t word = 0;
  api_desc d;
  (void)argument;
  (void)round;
  assert_ok(simpler_worker_register(worker, api_describe_orchestration(&d, "work_cxx", "orch_cxx"), &callable, &err));
  assert_ok(api_run(worker, callable, 0, &word, 1, NULL, 0, &err));
  assert_int_equal(word, 6);
  assert_ok(simpler_worker_unregister(worker, callable, &err));
}
static void P80_2000_cycles_of_an_object_in_cxx(void **state) {
  repeat(api_start(*state, 1), cycle_cxx, NULL, 100, api_is_sanitized() ? 200 : 2000);
}

/* P133 */
static void run_once(simpler_worker *worker, void *callable, int round) {
  uint64_t word = (uint64_t)round;
  assert_ok(api_run(worker, callable, 0, &word, 1, NULL, 0, &err));
  assert_int_equal(word, round + 1);
}
static void P133_100000_runs_of_one_task(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  repeat(worker, run_once, api_register_kernel(worker, "increment"), 1000, api_is_sanitized() ? 3000 : 100000);
}

/* Failed runs give back what they had, too. */
static void fail_once(simpler_worker *worker, void *callable, int round) {
  uint64_t word = (uint64_t)round;
  (void)round;
  assert_int_equal(api_run(worker, callable, 0, &word, 1, NULL, 0, NULL), SIMPLER_KERNEL_FAILED);
}
static void failed_runs(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  repeat(worker, fail_once, api_register_kernel(worker, "fail"), 1000, api_is_sanitized() ? 3000 : 20000);
}

static void buffer_once(simpler_worker *worker, void *callable, int round) {
  simpler_buffer *buffer;
  assert_ok(simpler_buffer_create(worker, 8 + 8 * ((uint64_t)round * 7919 % 5000), &buffer, &err));
  api_finish(api_submit_buffer(worker, callable, 0, buffer, NULL, 0));
  assert_int_equal(*(uint64_t *)simpler_buffer_data(buffer), 1);
  assert_ok(simpler_buffer_release(buffer, &err));
}
static void buffers_made_and_released(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  repeat(worker, buffer_once, api_register_kernel(worker, "increment"), 6000, api_is_sanitized() ? 2000 : 20000);
}

/* Unregistered while runs that use it are queued: all is dropped once they have ended. */
static void unregister_early(simpler_worker *worker, void *argument, int round) {
  simpler_callable *callable = api_register(worker, round % 2 == 0 ? "add_1" : "add_2");
  uint64_t words[5] = {0};
  simpler_run *runs[5];
  int i;
  (void)argument;
  for (i = 0; i < 5; i++) runs[i] = api_submit(worker, callable, 0, &words[i], 1, NULL, 0);
  assert_ok(simpler_worker_unregister(worker, callable, &err));
  for (i = 0; i < 5; i++) {
    api_finish(runs[i]);
    assert_int_equal(words[i], 1 + round % 2);
  }
}
static void callables_unregistered_with_runs_in_flight(void **state) {
  repeat(api_start(*state, 1), unregister_early, NULL, 100, api_is_sanitized() ? 200 : 2000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      API_TEST(P79_5000_cycles_of_register_run_unregister),
      API_TEST_IN_PROCESS(P79_5000_cycles_of_register_run_unregister),
      API_TEST(P80_2000_cycles_of_an_object_in_cxx),
      API_TEST(P133_100000_runs_of_one_task),
      API_TEST_IN_PROCESS(P133_100000_runs_of_one_task),
      API_TEST(failed_runs),
      API_TEST(buffers_made_and_released),
      API_TEST(callables_unregistered_with_runs_in_flight),
  };
  return api_run_tests(tests);
}
