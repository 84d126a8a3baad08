/* The check that a test leaves nothing behind, checked itself: each kind of thing is left on purpose in a child process. */
#include "support.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void wait_to_be_killed(void) {
  for (;;) pause();
}

static void *run_for_ever(void *unused) {
  (void)unused;
  wait_to_be_killed();
  return NULL;
}

static void leave_nothing(void) {}

static void leave_descriptor(void) {
  if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0) abort();
}

static void close_foreign_descriptor(void) { close(0); }

static void leave_child(void) {
  if (fork() != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  wait_to_be_killed();
}

static void leave_zombie(void) {
  if (fork() == 0) _exit(0);
}

static void leave_thread(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run_for_ever, NULL) != 0) abort();
}

static void leave_mapping(void) {
  const int fd = memfd_create("left", MFD_CLOEXEC);
  if (ftruncate(fd, 4096) != 0 || mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED) abort();
  close(fd);
}

static void leave_file(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s/left-XXXXXX", getenv("TMPDIR"));
  const int fd = mkstemp(path);
  if (fd < 0) abort();
  close(fd);
}

/* Runs `action` between two snapshots in a child process and asserts what the check says: `expected` as a part of its text,
 * or nothing at all if NULL. */
static void check_after(void (*action)(void), const char *expected) {
  int ends[2], status;
  char text[4096];
  size_t length = 0;
  ssize_t got;
  pid_t pid;
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  pid = fork();
  if (pid == 0) {
    char folder[] = "/tmp/simpler-support-XXXXXX", command[100];
    simpler_test_snapshot *before;
    size_t differences;
    if (dup2(ends[1], 2) < 0 || mkdtemp(folder) == NULL) abort();
    setenv("TMPDIR", folder, 1);
    setenv("SIMPLER_TEST_SETTLE_MS", "100", 1);
    before = simpler_test_snapshot_take();
    action();
    differences = simpler_test_snapshot_check(before, "the test");
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command) != 0) abort();
    _exit(differences == 0 ? 0 : 1);
  }
  close(ends[1]);
  while (length < sizeof text - 1 && (got = read(ends[0], text + length, sizeof text - 1 - length)) > 0)
    length += (size_t)got;
  text[length] = '\0';
  close(ends[0]);
  assert_true(waitpid(pid, &status, 0) == pid);
  if (expected == NULL) {
    assert_string_equal(text, "");
    assert_int_equal(status, 0);
  } else {
    if (strstr(text, expected) == NULL) fail_msg("expected \"%s\" in \"%s\"", expected, text);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  }
}

static void a_clean_test_passes(void **state) {
  (void)state;
  check_after(leave_nothing, NULL);
}

static void a_left_descriptor_is_named(void **state) {
  (void)state;
  check_after(leave_descriptor, "left behind: descriptor ");
  check_after(leave_descriptor, " -> /dev/null");
}

static void a_closed_foreign_descriptor_is_named(void **state) {
  (void)state;
  check_after(close_foreign_descriptor, "closed what is not its own: descriptor 0 -> ");
}

static void a_left_child_is_named(void **state) {
  (void)state;
  check_after(leave_child, "left behind: child process ");
}

static void a_zombie_is_named(void **state) {
  (void)state;
  check_after(leave_zombie, "left behind: zombie ");
}

static void a_left_thread_is_named(void **state) {
  (void)state;
  check_after(leave_thread, "left behind: thread ");
}

static void a_left_mapping_is_named(void **state) {
  (void)state;
  check_after(leave_mapping, "left behind: mapping of /memfd:left");
}

static void a_left_file_is_named(void **state) {
  (void)state;
  check_after(leave_file, "/left-");
}

static int set_up_number(void **state) {
  static int number = 42;
  assert_null(*state);
  *state = &number;
  return 0;
}

static int tear_down_number(void **state) {
  assert_int_equal(*(int *)*state, 42);
  return 0;
}

static void a_fixture_reaches_its_test(void **state) { assert_int_equal(*(int *)*state, 42); }

int main(void) {
  static simpler_test_fixture with_number = {set_up_number, tear_down_number};
  const struct CMUnitTest tests[] = {
      SIMPLER_TEST(a_clean_test_passes),
      SIMPLER_TEST(a_left_descriptor_is_named),
      SIMPLER_TEST(a_closed_foreign_descriptor_is_named),
      SIMPLER_TEST(a_left_child_is_named),
      SIMPLER_TEST(a_zombie_is_named),
      SIMPLER_TEST(a_left_thread_is_named),
      SIMPLER_TEST(a_left_mapping_is_named),
      SIMPLER_TEST(a_left_file_is_named),
      SIMPLER_TEST_WITH(a_fixture_reaches_its_test, &with_number),
  };
  return simpler_run_tests(tests);
}
