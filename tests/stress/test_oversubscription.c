/* More processes than CPUs: the founding cases in eight programs at once, each with several chips, on two CPUs. All of them have
 * to come to their end, with right results, and together in about the time that they take one after the other. The program is
 * this test itself: `test_oversubscription --program <what> <rounds>`.
 * ctest: TIMEOUT 600 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api.h"

enum {
  COPIES = 8,
  ATTEMPTS = 3 /* of a measurement, on a machine that others use, too */
};
static const double kSlack = 1.3;
/* One CPU for sixteen processes: what is measured is the scheduler of the system, mostly. */
static const double kSlackOneCpu = 2.0;

/* ---- the program ------------------------------------------------------------------------------------------------------- */

static void must(simpler_status status, simpler_error **error, const char *what) {
  if (status == SIMPLER_OK) return;
  fprintf(stderr, "%d: %s: %s: %s\n", (int)getpid(), what, simpler_status_name(status), simpler_error_message(*error));
  exit(1);
}
#define MUST(call)                                \
  do {                                            \
    simpler_error *err = NULL;                    \
    const simpler_status status_of_call = (call); \
    must(status_of_call, &err, #call);            \
  } while (0)

static void expect_words(const uint64_t *words, uint64_t count, uint64_t first, uint64_t step) {
  uint64_t i;
  for (i = 0; i < count; i++) {
    if (words[i] == first + step * i) continue;
    fprintf(stderr, "%d: element %llu is %llu instead of %llu\n", (int)getpid(), (unsigned long long)i,
            (unsigned long long)words[i], (unsigned long long)first + (unsigned long long)step * i);
    exit(1);
  }
}

/* Registers add_k, runs it on all chips at once, unregisters it; tells its cid. */
static uint32_t register_run_unregister(simpler_worker *worker, int32_t chips, uint64_t k) {
  enum {
    N = 1000
  };
  static uint64_t words[8][N];
  simpler_callable_info info = SIMPLER_CALLABLE_INFO_INIT;
  simpler_callable_desc desc = SIMPLER_CALLABLE_DESC_INIT;
  simpler_callable *callable;
  simpler_image image = {NULL, NULL, 0};
  simpler_run *runs[8];
  char name[16];
  int32_t chip;
  uint64_t i;
  snprintf(name, sizeof name, "add_%d", (int)k);
  image.path = api_path(name);
  desc.images = &image;
  desc.image_count = 1;
  MUST(simpler_worker_register(worker, &desc, &callable, &err));
  MUST(simpler_callable_get_info(callable, &info, &err));
  for (chip = 0; chip < chips; chip++) {
    const simpler_tensor_arg tensor = api_words(words[chip], N);
    const simpler_task task = api_task(callable, chip, &tensor, 1, NULL, 0);
    for (i = 0; i < N; i++) words[chip][i] = (uint64_t)(chip + 1) * i;
    MUST(simpler_worker_submit(worker, &task, NULL, &runs[chip], &err));
  }
  for (chip = 0; chip < chips; chip++) {
    MUST(simpler_run_wait(runs[chip], SIMPLER_FOREVER, &err));
    MUST(simpler_run_release(runs[chip], &err));
    expect_words(words[chip], N, k, (uint64_t)chip + 1);
  }
  MUST(simpler_worker_unregister(worker, callable, &err));
  return info.cid;
}

/* Rounds of: register after the start, broadcast, run on both chips, unregister, register into the freed cid, run again. */
static int founding_rounds(int rounds) {
  simpler_worker_options options = SIMPLER_WORKER_OPTIONS_INIT;
  simpler_worker *worker;
  int i;
  options.chips = 2;
  MUST(simpler_worker_create(&options, &worker, &err));
  for (i = 0; i < rounds; i++) {
    const uint32_t first = register_run_unregister(worker, 2, 1 + (uint64_t)i % 12);
    const uint32_t second = register_run_unregister(worker, 2, 1 + (uint64_t)(i + 5) % 12);
    if (first != second) {
      fprintf(stderr, "%d: cid %u was freed, and %u was taken\n", (int)getpid(), first, second);
      return 1;
    }
  }
  MUST(simpler_worker_destroy(worker, &err));
  return 0;
}

/* P01: rounds of: start three chips, run on each, close. */
static int start_rounds(int rounds) {
  int i;
  for (i = 0; i < rounds; i++) {
    simpler_worker_options options = SIMPLER_WORKER_OPTIONS_INIT;
    simpler_worker *worker;
    options.chips = 3;
    MUST(simpler_worker_create(&options, &worker, &err));
    register_run_unregister(worker, 3, 1 + (uint64_t)i % 12);
    MUST(simpler_worker_destroy(worker, &err));
  }
  return 0;
}

/* One worker, runs of one task on two chips in turn, each waited for: nothing but hand-overs between processes. */
static int run_rounds(int rounds) {
  simpler_worker_options options = SIMPLER_WORKER_OPTIONS_INIT;
  simpler_image image = {api_path("add_1"), NULL, 0};
  simpler_callable_desc desc = SIMPLER_CALLABLE_DESC_INIT;
  simpler_worker *worker;
  simpler_callable *callable;
  uint64_t word = 0;
  int i;
  options.chips = 2;
  desc.images = &image;
  desc.image_count = 1;
  MUST(simpler_worker_create(&options, &worker, &err));
  MUST(simpler_worker_register(worker, &desc, &callable, &err));
  for (i = 0; i < rounds; i++) MUST(api_run(worker, callable, i % 2, &word, 1, NULL, 0, &err));
  MUST(simpler_worker_destroy(worker, &err));
  expect_words(&word, 1, (uint64_t)rounds, 0);
  return 0;
}

static int program(const char *what, int rounds) {
  if (strcmp(what, "founding") == 0) return founding_rounds(rounds);
  if (strcmp(what, "start") == 0) return start_rounds(rounds);
  return run_rounds(rounds);
}

/* ---- the tests ---------------------------------------------------------------------------------------------------------- */

/* At most the first `count` CPUs of those that this process may use. */
static cpu_set_t few_cpus(int count) {
  cpu_set_t all, few;
  int cpu;
  CPU_ZERO(&few);
  sched_getaffinity(0, sizeof all, &all);
  for (cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&few) < count; cpu++) {
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &few);
  }
  return few;
}

static pid_t start(const char *what, int rounds, int cpus) {
  const cpu_set_t few = few_cpus(cpus);
  pid_t pid = fork();
  if (pid == 0) {
    char number[16];
    snprintf(number, sizeof number, "%d", rounds);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sched_setaffinity(0, sizeof few, &few);
    execl("/proc/self/exe", "test_oversubscription", "--program", what, number, (char *)NULL);
    _exit(97);
  }
  return pid;
}

static void finish(pid_t pid) {
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    fail_msg("copy %d ended with %s %d", (int)pid, WIFEXITED(status) ? "status" : "signal",
             WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
  }
}

static double run_copies(const char *what, int rounds, int cpus, int at_once) {
  const uint64_t begin = api_now_ns();
  pid_t pids[COPIES];
  int i;
  for (i = 0; i < COPIES; i++) {
    pids[i] = start(what, rounds, cpus);
    if (!at_once) finish(pids[i]);
  }
  for (i = 0; i < COPIES && at_once; i++) finish(pids[i]);
  return (double)(api_now_ns() - begin) * 1e-9;
}

static void compare(const char *what, int rounds, int cpus) {
  const double slack = cpus == 1 ? kSlackOneCpu : kSlack;
  int attempt;
  double one_by_one = 0, at_once = 0;
  if (api_is_sanitized()) rounds = rounds / 20 + 1;
  for (attempt = 0; attempt < ATTEMPTS; attempt++) {
    one_by_one = run_copies(what, rounds, cpus, 0);
    at_once = run_copies(what, rounds, cpus, 1);
    print_message("%d copies of %d %s rounds on %d CPUs: one after the other %.2f s, at once %.2f s: %.2f times\n", COPIES,
                  rounds, what, cpus, one_by_one, at_once, at_once / one_by_one);
    if (at_once <= slack * one_by_one) return;
  }
  fail_msg("%.2f s at once is more than %.1f times %.2f s one after the other", at_once, slack, one_by_one);
}

static void eight_copies_of_the_founding_cases_on_two_cpus(void **state) {
  (void)state;
  compare("founding", 150, 2);
}
static void eight_copies_of_the_founding_cases_on_one_cpu(void **state) {
  (void)state;
  compare("founding", 100, 1);
}
static void P01_eight_copies_that_start_run_and_close_on_two_cpus(void **state) {
  (void)state;
  compare("start", 30, 2);
}
static void eight_copies_of_runs_on_two_cpus(void **state) {
  (void)state;
  compare("run", 3000, 2);
}
static void eight_copies_of_runs_on_one_cpu(void **state) {
  (void)state;
  compare("run", 3000, 1);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      SIMPLER_TEST(eight_copies_of_the_founding_cases_on_two_cpus),
      SIMPLER_TEST(eight_copies_of_the_founding_cases_on_one_cpu),
      SIMPLER_TEST(P01_eight_copies_that_start_run_and_close_on_two_cpus),
      SIMPLER_TEST(eight_copies_of_runs_on_two_cpus),
      SIMPLER_TEST(eight_copies_of_runs_on_one_cpu),
  };
  if (argc == 4 && strcmp(argv[1], "--program") == 0) return program(argv[2], atoi(argv[3]));
  return simpler_run_tests(tests);
}
