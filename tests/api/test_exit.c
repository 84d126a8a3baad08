/* Programs that end without closing their worker, in every way there is; hosts that are killed. The program is this test itself:
 * `test_exit --program <how> <idle|busy|many>` starts a worker, prints the process ids of its chips, and ends as told.
 * ctest: TIMEOUT 120 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api.h"

enum {
  CHIPS = 3,
  EXIT_CODE = 43
};

/* ---- the program ------------------------------------------------------------------------------------------------------ */

static simpler_worker *program_worker;
static simpler_callable *program_callable;

static void must(simpler_status status) {
  if (status == SIMPLER_OK) return;
  fprintf(stderr, "the program failed: %s\n", simpler_status_name(status));
  _exit(99);
}

static void *exit_on_thread(void *unused) {
  (void)unused;
  exit(EXIT_CODE);
}

/* Until the worker is closed or the process ends. */
static void *run_for_ever(void *unused) {
  uint64_t word = 0;
  while (api_run(program_worker, program_callable, SIMPLER_CHIP_ANY, &word, 1, NULL, 0, NULL) == SIMPLER_OK) {
  }
  return unused;
}

static void destroy_at_exit(void) { simpler_worker_destroy(program_worker, NULL); }

static simpler_callable *program_register(const char *symbol) {
  const simpler_image image = {TEST_CALLABLE_DIR "/work.so", NULL, 0};
  simpler_kernel_desc kernel = {1, SIMPLER_CORE_AIV, 0, 0, NULL};
  simpler_callable_desc desc = SIMPLER_CALLABLE_DESC_INIT;
  simpler_callable *callable;
  kernel.symbol = symbol;
  desc.images = &image;
  desc.image_count = 1;
  desc.kernels = &kernel;
  desc.kernel_count = 1;
  must(simpler_worker_register(program_worker, &desc, &callable, NULL));
  return callable;
}

/* A kernel that never ends on every chip, and runs queued behind; returns when they run. */
static void make_busy(void) {
  simpler_callable *spin = program_register("spin");
  int32_t chip;
  for (chip = 0; chip < CHIPS; chip++) {
    simpler_buffer *buffer;
    simpler_tensor_arg tensor;
    simpler_task task = api_task(spin, chip, &tensor, 1, NULL, 0);
    simpler_run *run;
    must(simpler_buffer_create(program_worker, 64, &buffer, NULL));
    tensor = api_buffer_words(buffer);
    must(simpler_worker_submit(program_worker, &task, NULL, &run, NULL));
    must(simpler_worker_submit(program_worker, &task, NULL, &run, NULL));
    if (!api_wait_for_word((uint64_t *)simpler_buffer_data(buffer) + 1, 1)) _exit(98);
  }
}

/* Four threads that run short tasks all the time. */
static void make_many(void) {
  pthread_t thread;
  int i;
  for (i = 0; i < 4; i++) {
    pthread_create(&thread, NULL, run_for_ever, NULL);
    pthread_detach(thread);
  }
}

static int program(const char *how, const char *load) {
  simpler_worker_options options = SIMPLER_WORKER_OPTIONS_INIT;
  FILE *out = stdout;
  uint64_t word = 0;
  uint32_t chip;
  if (getenv("TEST_EXIT_OUT") != NULL) out = fdopen(atoi(getenv("TEST_EXIT_OUT")), "w");
  options.chips = CHIPS;
  options.close_limit_ns = 100000000;
  if (strcmp(how, "in-process") == 0) options.isolation = SIMPLER_ISOLATION_IN_PROCESS;
  must(simpler_worker_create(&options, &program_worker, NULL));
  program_callable = program_register("increment");
  must(api_run(program_worker, program_callable, 1, &word, 1, NULL, 0, NULL));
  for (chip = 0; chip < CHIPS; chip++) {
    int64_t pid;
    must(simpler_worker_chip_pid(program_worker, chip, &pid, NULL));
    fprintf(out, "%lld ", (long long)pid);
  }
  if (strcmp(load, "busy") == 0) make_busy();
  if (strcmp(load, "many") == 0) make_many();
  fprintf(out, "ready\n");
  fflush(out);
  /* No descriptor of the library has taken the number of a standard stream: what a host prints must go nowhere. */
  if (getenv("TEST_EXIT_OUT") != NULL && (fcntl(0, F_GETFD) >= 0 || fcntl(1, F_GETFD) >= 0 || fcntl(2, F_GETFD) >= 0))
    _exit(96);
  if (strcmp(how, "close") == 0) must(simpler_worker_destroy(program_worker, NULL));
  if (strcmp(how, "exit") == 0) exit(EXIT_CODE);
  if (strcmp(how, "_exit") == 0) _exit(EXIT_CODE);
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "exit-on-thread") == 0) {
    pthread_t thread;
    pthread_create(&thread, NULL, exit_on_thread, NULL);
    for (;;) pause();
  }
  if (strcmp(how, "atexit") == 0) {
    atexit(destroy_at_exit);
    exit(EXIT_CODE);
  }
  if (strcmp(how, "wait-to-be-killed") == 0) {
    for (;;) pause();
  }
  return EXIT_CODE; /* return, close, in-process */
}

/* ---- the tests ---------------------------------------------------------------------------------------------------------- */

typedef struct child {
  pid_t pid;
  int out; /* read end of its stdout */
  int pidfds[CHIPS];
} child;

/* Starts the program and returns when it has said that it is ready. */
static child start_program(const char *how, const char *load) {
  child c;
  int pipes[2], i;
  long long pids[CHIPS];
  char line[256], out_number[16];
  size_t length = 0;
  assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
  c.pid = fork();
  if (c.pid == 0) {
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(pipes[1], 1);
    if (strcmp(how, "no-standard-streams") == 0) {
      /* Its stdout is kept at another number; 0, 1 and 2 are free when the worker is created. */
      fcntl(pipes[1], F_SETFD, 0);
      snprintf(out_number, sizeof out_number, "%d", pipes[1]);
      setenv("TEST_EXIT_OUT", out_number, 1);
      close(0);
      close(1);
      close(2);
    }
    execl("/proc/self/exe", "test_exit", "--program", how, load, (char *)NULL);
    _exit(97);
  }
  close(pipes[1]);
  c.out = pipes[0];
  while (length < sizeof line - 1 && read(c.out, line + length, 1) == 1 && line[length] != '\n') length++;
  line[length] = '\0';
  if (sscanf(line, "%lld %lld %lld ready", &pids[0], &pids[1], &pids[2]) != 3 || strstr(line, "ready") == NULL) {
    kill(c.pid, SIGKILL);
    waitpid(c.pid, NULL, 0);
    fail_msg("the program said '%s'", line);
  }
  for (i = 0; i < CHIPS; i++) {
    /* -1: in-process, or gone already because the program was quick. */
    c.pidfds[i] = pids[i] != c.pid ? (int)syscall(SYS_pidfd_open, (pid_t)pids[i], 0) : -1;
  }
  return c;
}

static void expect_chips_gone(child *c, uint64_t within_ns) {
  const uint64_t end = api_now_ns() + api_patience_ns(within_ns);
  int i;
  for (i = 0; i < CHIPS; i++) {
    const uint64_t now = api_now_ns();
    if (c->pidfds[i] < 0) continue;
    if (!api_ends_within(c->pidfds[i], now < end ? end - now : 0)) fail_msg("chip %d outlives its host", i);
    close(c->pidfds[i]);
  }
}

/* Nobody holds the program's stdout any more: what `program | cat` waits for. */
static void expect_end_of_output(child *c) {
  char bytes[256];
  ssize_t got;
  while ((got = read(c->out, bytes, sizeof bytes)) > 0) {
  }
  assert_int_equal(got, 0);
  close(c->out);
}

/* P135, C24, P108: the exit code is the program's own, in time; no chip is left; its output ends. */
static void ends_well(const char *how, const char *load, int exit_code, int signal_number) {
  const uint64_t start = api_now_ns();
  child c = start_program(how, load);
  int status;
  assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
  assert_true(api_now_ns() - start < api_patience_ns(5000000000u));
  if (signal_number != 0) {
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), signal_number);
  } else {
    if (WIFSIGNALED(status)) fail_msg("the program was killed by signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), exit_code);
  }
  expect_chips_gone(&c, 1000000000u);
  expect_end_of_output(&c);
}

#define ENDS_WELL(name, how, load, signal_number)   \
  static void name(void **state) {                  \
    (void)state;                                    \
    ends_well(how, load, EXIT_CODE, signal_number); \
  }
ENDS_WELL(P135_return_from_main_idle, "return", "idle", 0)
ENDS_WELL(P135_return_from_main_busy, "return", "busy", 0)
ENDS_WELL(P135_return_from_main_while_threads_run, "return", "many", 0)
ENDS_WELL(P135_exit_idle, "exit", "idle", 0)
ENDS_WELL(P135_exit_busy, "exit", "busy", 0)
ENDS_WELL(P135_exit_while_threads_run, "exit", "many", 0)
ENDS_WELL(P135__exit_idle, "_exit", "idle", 0)
ENDS_WELL(P135__exit_busy, "_exit", "busy", 0)
ENDS_WELL(P135__exit_while_threads_run, "_exit", "many", 0)
ENDS_WELL(C24_exit_on_another_thread, "exit-on-thread", "idle", 0)
ENDS_WELL(C24_exit_on_another_thread_while_threads_run, "exit-on-thread", "many", 0)
ENDS_WELL(C24_destroy_at_exit, "atexit", "idle", 0)
ENDS_WELL(C24_destroy_at_exit_while_threads_run, "atexit", "many", 0)
ENDS_WELL(C24_destroy_at_exit_busy, "atexit", "busy", 0)
ENDS_WELL(P108_abort, "abort", "idle", SIGABRT)
ENDS_WELL(P108_abort_busy, "abort", "busy", SIGABRT)
ENDS_WELL(P108_close, "close", "idle", 0)
ENDS_WELL(P108_close_busy, "close", "busy", 0)
ENDS_WELL(standard_streams_closed, "no-standard-streams", "idle", 0)
ENDS_WELL(standard_streams_closed_busy, "no-standard-streams", "busy", 0)
ENDS_WELL(P135_return_from_main_in_process, "in-process", "idle", 0)
ENDS_WELL(P135_return_from_main_in_process_while_threads_run, "in-process", "many", 0)

/* P87 */
static void killed(const char *load) {
  child c = start_program("wait-to-be-killed", load);
  int i;
  for (i = 0; i < CHIPS; i++) assert_true(c.pidfds[i] >= 0);
  kill(c.pid, SIGKILL);
  assert_int_equal(waitpid(c.pid, NULL, 0), c.pid);
  expect_chips_gone(&c, 1000000000u);
  expect_end_of_output(&c);
}
static void P87_chips_end_when_their_idle_host_is_killed(void **state) {
  (void)state;
  killed("idle");
}
static void P87_chips_end_when_their_busy_host_is_killed(void **state) {
  (void)state;
  killed("busy");
}
static void P87_chips_end_when_their_host_is_killed_amid_runs(void **state) {
  (void)state;
  killed("many");
}

/* C24: a crash of the host in one of its threads is like a kill. */
static void P87_chips_end_when_their_host_crashes(void **state) {
  child c = start_program("wait-to-be-killed", "many");
  (void)state;
  kill(c.pid, SIGSEGV);
  assert_int_equal(waitpid(c.pid, NULL, 0), c.pid);
  expect_chips_gone(&c, 1000000000u);
  expect_end_of_output(&c);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      SIMPLER_TEST(P135_return_from_main_idle),
      SIMPLER_TEST(P135_return_from_main_busy),
      SIMPLER_TEST(P135_return_from_main_while_threads_run),
      SIMPLER_TEST(P135_exit_idle),
      SIMPLER_TEST(P135_exit_busy),
      SIMPLER_TEST(P135_exit_while_threads_run),
      SIMPLER_TEST(P135__exit_idle),
      SIMPLER_TEST(P135__exit_busy),
      SIMPLER_TEST(P135__exit_while_threads_run),
      SIMPLER_TEST(C24_exit_on_another_thread),
      SIMPLER_TEST(C24_exit_on_another_thread_while_threads_run),
      SIMPLER_TEST(C24_destroy_at_exit),
      SIMPLER_TEST(C24_destroy_at_exit_while_threads_run),
      SIMPLER_TEST(C24_destroy_at_exit_busy),
      SIMPLER_TEST(P108_abort),
      SIMPLER_TEST(P108_abort_busy),
      SIMPLER_TEST(P108_close),
      SIMPLER_TEST(P108_close_busy),
      SIMPLER_TEST(standard_streams_closed),
      SIMPLER_TEST(standard_streams_closed_busy),
      SIMPLER_TEST(P135_return_from_main_in_process),
      SIMPLER_TEST(P135_return_from_main_in_process_while_threads_run),
      SIMPLER_TEST(P87_chips_end_when_their_idle_host_is_killed),
      SIMPLER_TEST(P87_chips_end_when_their_busy_host_is_killed),
      SIMPLER_TEST(P87_chips_end_when_their_host_is_killed_amid_runs),
      SIMPLER_TEST(P87_chips_end_when_their_host_crashes),
  };
  if (argc == 4 && strcmp(argv[1], "--program") == 0) return program(argv[2], argv[3]);
  return simpler_run_tests(tests);
}
