/* simpler_test_launcher [--timeout SECONDS] [--no-aslr] PROGRAM [ARGUMENT...]
 *
 * Runs a test and checks from outside that it leaves nothing behind, whether or not the test itself looks:
 *
 * - processes: the launcher is the reaper of all that descends from it, so what outlives the test becomes its child. That
 *   may end by itself within a short time; then it is killed and the test has failed;
 * - files: the test gets a TMPDIR of its own, which must be empty at the end;
 * - shared memory: no new name of this user in /dev/shm.
 *
 * Works with many launchers side by side. At the timeout it prints every process and thread of the test with its state, and
 * stacks if gdb is there, and kills them all. --no-aslr is for ThreadSanitizer, which cannot cope with every layout.
 * Exit status: the test's own; 1 if it left something; 124 after a timeout; 128+N after signal N. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  GRACE_MS = 10000,
  PIDS_MAX = 1024,
  NAMES_MAX = 1024
};

static void die(const char *what) {
  fprintf(stderr, "test launcher: %s: %s\n", what, strerror(errno));
  exit(125);
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "test launcher: ");
  vfprintf(stderr, format, args);
  fprintf(stderr, "\n");
  va_end(args);
}

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- processes ----------------------------------------------------------------------------------------------------- */

/* Appends all that descends from `pid`, parents before children. */
static size_t add_descendants(pid_t pid, pid_t *pids, size_t count) {
  char path[300];
  DIR *tasks;
  struct dirent *item;
  snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  tasks = opendir(path);
  if (tasks == NULL) return count;
  while ((item = readdir(tasks)) != NULL) {
    FILE *children;
    int child;
    if (item->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)pid, item->d_name);
    children = fopen(path, "re");
    if (children == NULL) continue;
    while (count < PIDS_MAX && fscanf(children, "%d", &child) == 1) {
      pids[count++] = child;
      count = add_descendants(child, pids, count);
    }
    fclose(children);
  }
  closedir(tasks);
  return count;
}

static void print_file(const char *format, int pid, const char *task, const char *label) {
  char path[300], text[600];
  FILE *file;
  snprintf(path, sizeof path, format, pid, task);
  file = fopen(path, "re");
  if (file == NULL) return;
  if (fgets(text, sizeof text, file) != NULL) {
    text[strcspn(text, "\n")] = '\0';
    fprintf(stderr, " %s%s", label, text);
  }
  fclose(file);
}

static void print_process(pid_t pid) {
  char path[300], line[300];
  DIR *tasks;
  struct dirent *item;
  fprintf(stderr, "  process %d", (int)pid);
  print_file("/proc/%d/cmdline", pid, "", "");
  fprintf(stderr, "\n");
  snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  tasks = opendir(path);
  if (tasks == NULL) return;
  while ((item = readdir(tasks)) != NULL) {
    FILE *status;
    if (item->d_name[0] == '.') continue;
    fprintf(stderr, "    thread %s", item->d_name);
    print_file("/proc/%d/task/%s/comm", pid, item->d_name, "");
    snprintf(path, sizeof path, "/proc/%d/task/%s/status", (int)pid, item->d_name);
    status = fopen(path, "re");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
      line[strcspn(line, "\n")] = '\0';
      if (strncmp(line, "State:", 6) == 0) fprintf(stderr, ", %s", line + 7);
    }
    if (status != NULL) fclose(status);
    print_file("/proc/%d/task/%s/wchan", pid, item->d_name, "in ");
    fprintf(stderr, "\n");
  }
  closedir(tasks);
}

/* Stacks of all threads on stderr, if gdb is installed and may attach. Given up after 20 s. */
static void print_stacks(pid_t pid) {
  char text[32];
  pid_t debugger;
  int64_t end = now_ms() + 20000;
  snprintf(text, sizeof text, "%d", (int)pid);
  debugger = fork();
  if (debugger == 0) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, 0);
    dup2(2, 1);
    execlp("gdb", "gdb", "-nx", "-batch", "-p", text, "-ex", "thread apply all backtrace 30", (char *)NULL);
    _exit(127);
  }
  while (debugger > 0 && waitpid(debugger, NULL, WNOHANG) == 0) {
    const struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL);
    if (now_ms() > end) kill(debugger, SIGKILL);
  }
}

static void kill_descendants(void) {
  pid_t pids[PIDS_MAX];
  size_t i, count;
  /* Again and again: a process may start another while it dies. */
  while ((count = add_descendants(getpid(), pids, 0)) > 0) {
    for (i = 0; i < count; i++) kill(pids[i], SIGKILL);
    while (waitpid(-1, NULL, 0) > 0) {
    }
  }
}

/* Waits until nothing descends from us any more. Returns the number of processes that had to be killed. */
static size_t reap_descendants(void) {
  pid_t pids[PIDS_MAX];
  size_t i, count;
  int64_t end = now_ms() + GRACE_MS;
  for (;;) {
    pid_t pid = waitpid(-1, NULL, WNOHANG);
    if (pid < 0) return 0; /* no children at all */
    if (pid == 0) {
      const struct timespec pause = {0, 2000000};
      if (now_ms() > end) break;
      nanosleep(&pause, NULL);
    }
  }
  count = add_descendants(getpid(), pids, 0);
  say("the test left %zu process(es) behind:", count);
  for (i = 0; i < count; i++) print_process(pids[i]);
  kill_descendants();
  return count;
}

/* ---- files --------------------------------------------------------------------------------------------------------- */

typedef struct names {
  char *names[NAMES_MAX];
  size_t count;
} names;

/* Names in `folder` that belong to this user. */
static void read_names(const char *folder, names *list) {
  DIR *dir = opendir(folder);
  struct dirent *item;
  list->count = 0;
  if (dir == NULL) return;
  while ((item = readdir(dir)) != NULL && list->count < NAMES_MAX) {
    struct stat status;
    if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0) continue;
    if (fstatat(dirfd(dir), item->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || status.st_uid != getuid()) continue;
    list->names[list->count++] = strdup(item->d_name);
  }
  closedir(dir);
}

/* Prints what is in `folder` now and not in `before` (may be NULL) and returns the number. */
static size_t print_new_names(const char *folder, const names *before, const char *hint) {
  static names after;
  size_t i, k, fresh = 0;
  read_names(folder, &after);
  for (i = 0; i < after.count; i++) {
    for (k = 0; before != NULL && k < before->count; k++)
      if (strcmp(before->names[k], after.names[i]) == 0) break;
    if (before == NULL || k == before->count) {
      say("the test left %s/%s behind%s", folder, after.names[i], hint);
      fresh++;
    }
    free(after.names[i]);
  }
  return fresh;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place) {
  (void)status;
  (void)type;
  (void)place;
  return remove(path);
}

/* ---- the run ------------------------------------------------------------------------------------------------------- */

static pid_t start_test(char **command, int no_aslr, const sigset_t *mask) {
  pid_t parent = getpid(), pid = fork();
  const struct rlimit no_core = {0, 0};
  if (pid != 0) return pid;
  sigprocmask(SIG_SETMASK, mask, NULL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(125);
  setrlimit(RLIMIT_CORE, &no_core);
  if (no_aslr) personality(ADDR_NO_RANDOMIZE);
  execvp(command[0], command);
  die(command[0]);
  return -1;
}

static void explain_timeout(long seconds) {
  pid_t pids[PIDS_MAX];
  size_t i, count = add_descendants(getpid(), pids, 0);
  say("no end after %ld s; its processes:", seconds);
  for (i = 0; i < count; i++) print_process(pids[i]);
  for (i = 0; i < count && i < 8; i++) print_stacks(pids[i]);
}

/* Returns the exit status of the test. */
static int wait_for_test(pid_t pid, long timeout_s, const sigset_t *mask) {
  int64_t end = now_ms() + (timeout_s > 0 ? timeout_s : 1000000) * 1000;
  for (;;) {
    int status;
    pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended == pid) {
      if (WIFEXITED(status)) return WEXITSTATUS(status);
      say("the test was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
      return 128 + WTERMSIG(status);
    }
    if (ended <= 0) {
      const int64_t left = end - now_ms();
      const struct timespec pause = {left > 0 ? left / 1000 : 0, left > 0 ? left % 1000 * 1000000 : 0};
      int signal_number;
      if (left <= 0) {
        explain_timeout(timeout_s);
        return 124;
      }
      signal_number = sigtimedwait(mask, NULL, &pause);
      if (signal_number == SIGTERM || signal_number == SIGINT) return 128 + signal_number;
    }
  }
}

int main(int argc, char **argv) {
  static names shared_memory_before;
  const char *base = getenv("TMPDIR");
  char folder[512];
  long timeout_s = 0;
  int no_aslr = 0, result;
  size_t left = 0;
  sigset_t mask, old_mask;
  pid_t pid;

  for (argv++, argc--; argc > 0 && strncmp(argv[0], "--", 2) == 0; argv++, argc--) {
    if (strcmp(argv[0], "--no-aslr") == 0) {
      no_aslr = 1;
    } else if (strcmp(argv[0], "--timeout") == 0 && argc > 1) {
      timeout_s = atol(argv[1]);
      argv++;
      argc--;
    } else {
      fprintf(stderr, "test launcher: unknown option %s\n", argv[0]);
      return 125;
    }
  }
  if (argc == 0) {
    fprintf(stderr, "usage: simpler_test_launcher [--timeout SECONDS] [--no-aslr] PROGRAM [ARGUMENT...]\n");
    return 125;
  }

  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) die("PR_SET_CHILD_SUBREAPER");
  snprintf(folder, sizeof folder, "%s/simpler-test-XXXXXX", base != NULL && base[0] != '\0' ? base : "/tmp");
  if (mkdtemp(folder) == NULL) die(folder);
  setenv("TMPDIR", folder, 1);
  read_names("/dev/shm", &shared_memory_before);

  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  sigaddset(&mask, SIGTERM);
  sigaddset(&mask, SIGINT);
  sigprocmask(SIG_BLOCK, &mask, &old_mask);

  pid = start_test(argv, no_aslr, &old_mask);
  if (pid < 0) die("fork");
  result = wait_for_test(pid, timeout_s, &mask);
  if (result == 124 || result == 128 + SIGTERM || result == 128 + SIGINT) {
    kill_descendants();
  } else {
    left += reap_descendants();
  }
  left += print_new_names(folder, NULL, "");
  left += print_new_names("/dev/shm", &shared_memory_before, " (or another program of this user did)");
  nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
  if (result == 0 && left != 0) result = 1;
  if (result != 0) {
    const char *chip = getenv("SIMPLER_CHIP_PATH");
    say("status %d; to run it again: SIMPLER_CHIP_PATH=%s %s", result, chip != NULL ? chip : "", argv[0]);
  }
  return result;
}
