/* The example programs, run as users run them. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../examples/common/npy.h"
#include "support.h"

#define VECTOR_ADD EXAMPLES_DIR "/vector_add/vector_add"
#define VECTOR_EXAMPLE EXAMPLES_DIR "/vector_example/vector_example"

static char output[1 << 16]; /* stdout and stderr of the last program */

/* Runs a program with up to eight arguments; returns its exit status, or 1000 + signal. */
static int run(const char *program, const char *const *arguments) {
  char *argv[10] = {NULL};
  int pipes[2], status, i;
  size_t length = 0;
  ssize_t got;
  pid_t pid;
  argv[0] = strdup(program);
  for (i = 0; arguments != NULL && arguments[i] != NULL; i++) argv[i + 1] = strdup(arguments[i]);
  assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
  pid = fork();
  if (pid == 0) {
    if (chdir("/") != 0) _exit(96);
    dup2(pipes[1], 1);
    dup2(pipes[1], 2);
    execv(program, argv);
    _exit(97);
  }
  close(pipes[1]);
  while ((got = read(pipes[0], output + length, sizeof output - 1 - length)) > 0) length += (size_t)got;
  output[length] = '\0';
  close(pipes[0]);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  for (i = 0; argv[i] != NULL; i++) free(argv[i]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#define RUN(program, ...) run(program, (const char *const[]){__VA_ARGS__, NULL})

static void expect_in_output(const char *part) {
  if (strstr(output, part) == NULL) fail_msg("'%s' is not in the output:\n%s", part, output);
}

#define EXPECT_STATUS(expected, call)                                                              \
  do {                                                                                             \
    const int status_of_run = (call);                                                              \
    if (status_of_run != (expected)) fail_msg("%s: status %d:\n%s", #call, status_of_run, output); \
  } while (0)

static void vector_add_adds(void **state) {
  (void)state;
  EXPECT_STATUS(0, RUN(VECTOR_ADD, EXAMPLES_DIR "/vector_add/vector_add.so"));
  expect_in_output("all right");
  EXPECT_STATUS(1, RUN(VECTOR_ADD, "/nowhere/vector_add.so"));
  expect_in_output("NOT_FOUND");
  expect_in_output("/nowhere/vector_add.so");
}

static void vector_example_is_right_on_processes(void **state) {
  (void)state;
  EXPECT_STATUS(0, run(VECTOR_EXAMPLE, NULL));
  expect_in_output("2 chips of a2a3sim");
  expect_in_output("5 tasks, 6 edges");
  expect_in_output("cid 0 again: generation 1 has become 2");
  expect_in_output("all results are right");
  EXPECT_STATUS(0, RUN(VECTOR_EXAMPLE, "--chips", "1", "--repeat", "1"));
  EXPECT_STATUS(0, RUN(VECTOR_EXAMPLE, "--chips", "5", "--platform", "a5sim"));
  expect_in_output("5 chips of a5sim");
}

static void vector_example_is_right_in_process(void **state) {
  (void)state;
  EXPECT_STATUS(0, RUN(VECTOR_EXAMPLE, "--in-process"));
  expect_in_output("in this process");
  expect_in_output("all results are right");
  EXPECT_STATUS(0, RUN(VECTOR_EXAMPLE, "--in-process", "--chips", "3", "--platform", "a5sim", "--repeat", "2"));
}

static void options_are_checked(void **state) {
  (void)state;
  EXPECT_STATUS(0, RUN(VECTOR_EXAMPLE, "--help"));
  expect_in_output("--input-a FILE.npy");
  EXPECT_STATUS(2, RUN(VECTOR_EXAMPLE, "--chips", "0"));
  expect_in_output("from 1 to 64");
  EXPECT_STATUS(2, RUN(VECTOR_EXAMPLE, "--chips", "two"));
  EXPECT_STATUS(2, RUN(VECTOR_EXAMPLE, "--chips", "65"));
  EXPECT_STATUS(2, RUN(VECTOR_EXAMPLE, "--repeat", "-1"));
  EXPECT_STATUS(2, RUN(VECTOR_EXAMPLE, "--colour"));
  EXPECT_STATUS(2, RUN(VECTOR_EXAMPLE, "file"));
  EXPECT_STATUS(1, RUN(VECTOR_EXAMPLE, "--platform", "b7sim"));
  expect_in_output("b7sim");
  EXPECT_STATUS(1, RUN(VECTOR_EXAMPLE, "--callable", "/nowhere/a.so"));
  expect_in_output("/nowhere/a.so");
}

/* ---- files ---------------------------------------------------------------------------------------------------------- */

static char paths[3][512]; /* a, b, f */

static int make_paths(void **state) {
  const char *folder = getenv("TMPDIR");
  int i;
  (void)state;
  for (i = 0; i < 3; i++) {
    int fd;
    snprintf(paths[i], sizeof paths[i], "%s/array-XXXXXX", folder != NULL ? folder : "/tmp");
    fd = mkstemp(paths[i]);
    if (fd < 0) return -1;
    close(fd);
  }
  return 0;
}
static int remove_paths(void **state) {
  int i;
  (void)state;
  for (i = 0; i < 3; i++) unlink(paths[i]);
  return 0;
}
static simpler_test_fixture with_files = {make_paths, remove_paths};

static void write_input(int which, uint32_t rank, const uint64_t *shape, float scale) {
  npy_array array = {rank, {0}, 1, NULL};
  npy_error error;
  uint64_t i;
  for (i = 0; i < rank; i++) array.elements *= array.shape[i] = shape[i];
  array.data = malloc((size_t)array.elements * sizeof(float) + 1);
  assert_non_null(array.data);
  for (i = 0; i < array.elements; i++) array.data[i] = scale * (float)((i * 7919) % 1000) - 3.5f;
  if (!npy_write(paths[which], &array, &error)) fail_msg("%s", error.text);
  npy_free(&array);
}

static void check_shape(uint32_t rank, const uint64_t *shape) {
  npy_array a, b, f;
  npy_error error;
  uint64_t i;
  write_input(0, rank, shape, 0.25f);
  write_input(1, rank, shape, 0.0625f);
  EXPECT_STATUS(0, RUN(VECTOR_EXAMPLE, "--input-a", paths[0], "--input-b", paths[1], "--output", paths[2], "--repeat", "2"));
  if (!npy_read(paths[0], &a, &error) || !npy_read(paths[1], &b, &error) || !npy_read(paths[2], &f, &error)) {
    fail_msg("%s", error.text);
    return;
  }
  assert_int_equal(f.rank, rank);
  for (i = 0; i < rank; i++) assert_int_equal(f.shape[i], shape[i]);
  for (i = 0; i < f.elements; i++) {
    /* Sums and products of these numbers are exact in float32. */
    const float c = a.data[i] + b.data[i];
    const volatile float g = (c + 1) * (c + 2);
    const volatile float expected = g + c;
    if (f.data[i] != expected)
      fail_msg("element %llu is %g, not %g", (unsigned long long)i, (double)f.data[i], (double)expected);
  }
  npy_free(&a);
  npy_free(&b);
  npy_free(&f);
}

static void files_of_any_shape_are_read_and_written(void **state) {
  static const uint64_t shapes[][3] = {{128, 128, 0}, {1, 1, 0}, {3, 1000, 0}, {517, 331, 0}, {2000, 1500, 0}, {0, 5, 0}};
  const uint64_t one[1] = {77}, three[3] = {4, 5, 6};
  size_t i;
  (void)state;
  for (i = 0; i < sizeof shapes / sizeof shapes[0]; i++) check_shape(2, shapes[i]);
  check_shape(1, one);
  check_shape(3, three);
}

static void bad_files_are_named(void **state) {
  const uint64_t shape[2] = {10, 20}, other[2] = {20, 10}, flat[1] = {200};
  FILE *file;
  (void)state;
  write_input(0, 2, shape, 1);
  write_input(1, 2, other, 1);
  EXPECT_STATUS(1, RUN(VECTOR_EXAMPLE, "--input-a", paths[0], "--input-b", paths[1]));
  expect_in_output("a is 10x20, b is 20x10");
  write_input(1, 1, flat, 1);
  EXPECT_STATUS(1, RUN(VECTOR_EXAMPLE, "--input-a", paths[0], "--input-b", paths[1]));
  expect_in_output("a is 10x20, b is 200");
  file = fopen(paths[1], "wb");
  fputs("not an array", file);
  fclose(file);
  EXPECT_STATUS(1, RUN(VECTOR_EXAMPLE, "--input-a", paths[0], "--input-b", paths[1]));
  expect_in_output(paths[1]);
  expect_in_output("not an .npy file");
  EXPECT_STATUS(1, RUN(VECTOR_EXAMPLE, "--input-a", "/nowhere/a.npy"));
  expect_in_output("/nowhere/a.npy");
  EXPECT_STATUS(1, RUN(VECTOR_EXAMPLE, "--repeat", "1", "--output", "/nowhere/f.npy"));
  expect_in_output("/nowhere/f.npy");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      SIMPLER_TEST(vector_add_adds),
      SIMPLER_TEST(vector_example_is_right_on_processes),
      SIMPLER_TEST(vector_example_is_right_in_process),
      SIMPLER_TEST(options_are_checked),
      SIMPLER_TEST_WITH(files_of_any_shape_are_read_and_written, &with_files),
      SIMPLER_TEST_WITH(bad_files_are_named, &with_files),
  };
  return simpler_run_tests(tests);
}
