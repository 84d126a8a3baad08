#include "support.h"

#include <dirent.h>
#include <errno.h>
#ifdef __SANITIZE_THREAD__
#include <pthread.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* How long things that end by themselves may take. Long because test machines are crowded; a clean test never waits.
 * $SIMPLER_TEST_SETTLE_MS overrides it. */
enum {
  SETTLE_MS_DEFAULT = 10000
};

/* One thing that can be left behind. Two snapshots are compared by key; the detail is for the reader. */
typedef struct entry {
  char *key;
  char *detail;
} entry;

struct simpler_test_snapshot {
  entry *entries; /* sorted by key */
  size_t count;
  size_t capacity;
};

static void die(const char *what) {
  fprintf(stderr, "test support: %s: %s\n", what, strerror(errno));
  abort();
}

static char *format_text(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
static char *format_text(const char *format, va_list args) {
  char *text = NULL;
  if (vasprintf(&text, format, args) < 0) die("vasprintf");
  return text;
}

static void add_entry(simpler_test_snapshot *snapshot, const char *detail, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add_entry(simpler_test_snapshot *snapshot, const char *detail, const char *format, ...) {
  va_list args;
  if (snapshot->count == snapshot->capacity) {
    snapshot->capacity = snapshot->capacity == 0 ? 64 : 2 * snapshot->capacity;
    snapshot->entries = realloc(snapshot->entries, snapshot->capacity * sizeof(entry));
    if (snapshot->entries == NULL) die("realloc");
  }
  va_start(args, format);
  snapshot->entries[snapshot->count].key = format_text(format, args);
  va_end(args);
  snapshot->entries[snapshot->count].detail = strdup(detail);
  snapshot->count++;
}

/* The first line of a small file, or "". */
static void read_line(const char *path, char *line, size_t size) {
  FILE *file = fopen(path, "re");
  line[0] = '\0';
  if (file == NULL) return;
  if (fgets(line, (int)size, file) == NULL) line[0] = '\0';
  line[strcspn(line, "\n")] = '\0';
  fclose(file);
}

static void add_descriptors(simpler_test_snapshot *snapshot) {
  DIR *dir = opendir("/proc/self/fd");
  struct dirent *item;
  if (dir == NULL) die("/proc/self/fd");
  while ((item = readdir(dir)) != NULL) {
    char path[300], target[512];
    ssize_t length;
    if (item->d_name[0] == '.' || atoi(item->d_name) == dirfd(dir)) continue;
    snprintf(path, sizeof path, "/proc/self/fd/%s", item->d_name);
    length = readlink(path, target, sizeof target - 1);
    if (length < 0) continue;
    target[length] = '\0';
    add_entry(snapshot, "", "descriptor %s -> %s", item->d_name, target);
  }
  closedir(dir);
}

/* Threads, and the children of each. A zombie has a key of its own: a child that ended without being reaped differs from
 * the living child that it was. */
static void add_threads_and_children(simpler_test_snapshot *snapshot) {
  DIR *dir = opendir("/proc/self/task");
  struct dirent *item;
  if (dir == NULL) die("/proc/self/task");
  while ((item = readdir(dir)) != NULL) {
    char path[300], name[64];
    FILE *children;
    long pid;
    if (item->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", item->d_name);
    read_line(path, name, sizeof name);
    add_entry(snapshot, name, "thread %s", item->d_name);
    snprintf(path, sizeof path, "/proc/self/task/%s/children", item->d_name);
    children = fopen(path, "re");
    if (children == NULL) continue; /* the thread ended meanwhile */
    while (fscanf(children, "%ld", &pid) == 1) {
      char stat[512], *state;
      snprintf(path, sizeof path, "/proc/%ld/stat", pid);
      read_line(path, stat, sizeof stat);
      state = strrchr(stat, ')'); /* pid (name) state ... */
      if (state == NULL) continue;
      state[1] = '\0';
      add_entry(snapshot, strchr(stat, '('), "%s %ld", state[2] == 'Z' ? "zombie" : "child process", pid);
    }
    fclose(children);
  }
  closedir(dir);
}

static void add_mappings(simpler_test_snapshot *snapshot) {
  FILE *maps = fopen("/proc/self/maps", "re");
  char line[1024];
  if (maps == NULL) die("/proc/self/maps");
  while (fgets(line, sizeof line, maps) != NULL) {
    unsigned long long inode = 0;
    int offset = 0;
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%*s %*s %*s %*s %llu %n", &inode, &offset) != 1 || offset == 0) continue;
    if (strncmp(line + offset, "/memfd:", 7) == 0 || strncmp(line + offset, "/dev/shm/", 9) == 0)
      add_entry(snapshot, "", "mapping of %s, inode %llu", line + offset, inode);
  }
  fclose(maps);
}

static void add_folder(simpler_test_snapshot *snapshot, const char *folder) {
  DIR *dir = folder == NULL ? NULL : opendir(folder);
  struct dirent *item;
  if (dir == NULL) return;
  while ((item = readdir(dir)) != NULL) {
    if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0) continue;
    add_entry(snapshot, "", "file %s/%s", folder, item->d_name);
  }
  closedir(dir);
}

static int compare_entries(const void *a, const void *b) { return strcmp(((const entry *)a)->key, ((const entry *)b)->key); }

simpler_test_snapshot *simpler_test_snapshot_take(void) {
  simpler_test_snapshot *snapshot = calloc(1, sizeof *snapshot);
  size_t i, kept = 0;
  if (snapshot == NULL) die("calloc");
  add_descriptors(snapshot);
  add_threads_and_children(snapshot);
  add_mappings(snapshot);
  add_folder(snapshot, "/dev/shm");
  add_folder(snapshot, getenv("TMPDIR")); /* without a TMPDIR of its own a test shares /tmp with everybody: not looked at */
  if (snapshot->count > 0) qsort(snapshot->entries, snapshot->count, sizeof(entry), compare_entries);
  /* One segment is often mapped in pieces. */
  for (i = 0; i < snapshot->count; i++) {
    if (kept > 0 && strcmp(snapshot->entries[kept - 1].key, snapshot->entries[i].key) == 0) {
      free(snapshot->entries[i].key);
      free(snapshot->entries[i].detail);
    } else {
      snapshot->entries[kept++] = snapshot->entries[i];
    }
  }
  snapshot->count = kept;
  return snapshot;
}

static void free_snapshot(simpler_test_snapshot *snapshot) {
  size_t i;
  for (i = 0; i < snapshot->count; i++) {
    free(snapshot->entries[i].key);
    free(snapshot->entries[i].detail);
  }
  free(snapshot->entries);
  free(snapshot);
}

static void print_entry(const char *what, const char *verb, const entry *e, int print) {
  if (print) fprintf(stderr, "%s %s %s%s%s\n", what, verb, e->key, e->detail[0] != '\0' ? " " : "", e->detail);
}

/* Number of differences that count. Of what is gone only descriptors do: whoever closes a descriptor that is not its own
 * breaks somebody else. */
static size_t count_differences(const simpler_test_snapshot *before, const simpler_test_snapshot *after, const char *what,
                                int print) {
  size_t b = 0, a = 0, differences = 0;
  while (b < before->count || a < after->count) {
    int order = b == before->count ? 1 : a == after->count ? -1 : compare_entries(&before->entries[b], &after->entries[a]);
    if (order == 0) {
      a++;
      b++;
    } else if (order > 0) {
      print_entry(what, "left behind:", &after->entries[a++], print);
      differences++;
    } else {
      const entry *gone = &before->entries[b++];
      if (strncmp(gone->key, "descriptor ", 11) == 0) {
        print_entry(what, "closed what is not its own:", gone, print);
        differences++;
      }
    }
  }
  return differences;
}

size_t simpler_test_snapshot_check(simpler_test_snapshot *before, const char *what) {
  simpler_test_snapshot *after = simpler_test_snapshot_take();
  size_t differences;
  const char *settle = getenv("SIMPLER_TEST_SETTLE_MS");
  const long settle_us = 1000 * (settle != NULL ? atol(settle) : SETTLE_MS_DEFAULT);
  long waited_us, pause_us = 100;
  for (waited_us = 0; waited_us < settle_us && count_differences(before, after, what, 0) != 0; waited_us += pause_us) {
    const struct timespec pause = {0, pause_us * 1000};
    nanosleep(&pause, NULL); /* the kernel drops ended threads and children without telling anybody */
    if (pause_us < 20000) pause_us *= 2;
    free_snapshot(after);
    after = simpler_test_snapshot_take();
  }
  differences = count_differences(before, after, what, 1);
  free_snapshot(after);
  free_snapshot(before);
  return differences;
}

/* ---- with cmocka ------------------------------------------------------------------------------------------------- */

/* cmocka runs one test at a time, on one thread. */
static simpler_test_snapshot *test_snapshot;
static simpler_test_snapshot *group_snapshot;
static const simpler_test_fixture *test_fixture;

int simpler_test_setup(void **state) {
  test_fixture = *state;
  *state = NULL;
  test_snapshot = simpler_test_snapshot_take();
  return test_fixture != NULL && test_fixture->setup != NULL ? test_fixture->setup(state) : 0;
}

int simpler_test_teardown(void **state) {
  int result = test_fixture != NULL && test_fixture->teardown != NULL ? test_fixture->teardown(state) : 0;
  simpler_test_snapshot *before = test_snapshot;
  test_snapshot = NULL;
  if (simpler_test_snapshot_check(before, "the test") != 0) return -1;
  return result;
}

#ifdef __SANITIZE_THREAD__
static void *do_nothing(void *argument) { return argument; }
#endif

static int group_setup(void **state) {
  (void)state;
#ifdef __SANITIZE_THREAD__
  /* ThreadSanitizer starts a thread of its own with the first one of ours: let that be before the snapshot. */
  pthread_t thread;
  if (pthread_create(&thread, NULL, do_nothing, NULL) != 0) die("pthread_create");
  pthread_join(thread, NULL);
#endif
  group_snapshot = simpler_test_snapshot_take();
  return 0;
}

static int group_teardown(void **state) {
  (void)state;
  return simpler_test_snapshot_check(group_snapshot, "the group of tests") == 0 ? 0 : -1;
}

int simpler_run_test_group(const char *name, const struct CMUnitTest *tests, size_t count) {
  const char *filter = getenv("SIMPLER_TEST_FILTER");
  const char *base = strrchr(name, '/');
  if (filter != NULL && filter[0] != '\0') cmocka_set_test_filter(filter);
  return _cmocka_run_group_tests(base != NULL ? base + 1 : name, tests, count, group_setup, group_teardown) == 0 ? 0 : 1;
}
