/* The reader and writer of .npy files that the examples use. Files are built here byte by byte, as NumPy writes them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../examples/common/npy.h"
#include "support.h"

static char path[512];

static int make_path(void **state) {
  const char *folder = getenv("TMPDIR");
  int fd;
  (void)state;
  snprintf(path, sizeof path, "%s/array-XXXXXX", folder != NULL ? folder : "/tmp");
  fd = mkstemp(path);
  return fd < 0 || close(fd) != 0 ? -1 : 0;
}
static int remove_path(void **state) {
  (void)state;
  unlink(path);
  return 0;
}
static simpler_test_fixture with_file = {make_path, remove_path};

/* Writes a file of format `major`.`minor` with this header text, padded as NumPy does, and `data_bytes` bytes of floats 0, 1, ... */
static void write_file(int major, int minor, const char *header, size_t data_bytes) {
  const size_t prefix = major == 1 ? 10 : 12;
  const size_t length = (prefix + strlen(header) + 1 + 63) / 64 * 64 - prefix;
  FILE *file = fopen(path, "wb");
  size_t i;
  assert_non_null(file);
  fwrite("\x93NUMPY", 1, 6, file);
  fputc(major, file);
  fputc(minor, file);
  for (i = 0; i < prefix - 8; i++) fputc((int)(length >> (8 * i) & 0xff), file);
  fputs(header, file);
  for (i = strlen(header); i + 1 < length; i++) fputc(' ', file);
  fputc('\n', file);
  for (i = 0; i < data_bytes; i++) {
    const uint64_t element = i / 4;
    const float value = (float)element;
    fputc(((const unsigned char *)&value)[i % 4], file);
  }
  fclose(file);
}

static void expect_array(uint32_t rank, const uint64_t *shape, uint64_t elements) {
  npy_array array;
  npy_error error;
  uint64_t i;
  if (!npy_read(path, &array, &error)) fail_msg("%s", error.text);
  assert_int_equal(array.rank, rank);
  for (i = 0; i < rank; i++) assert_int_equal(array.shape[i], shape[i]);
  assert_int_equal(array.elements, elements);
  assert_non_null(array.data);
  for (i = 0; i < elements; i++) assert_true(array.data[i] == (float)i);
  npy_free(&array);
}

static void expect_error(const char *part) {
  npy_array array;
  npy_error error = {""};
  assert_false(npy_read(path, &array, &error));
  if (strstr(error.text, part) == NULL || strstr(error.text, path) == NULL) {
    fail_msg("the message is '%s', and does not contain '%s' and the path", error.text, part);
  }
  assert_null(array.data);
}

static void reads_both_formats(void **state) {
  const uint64_t shape[2] = {2, 3};
  (void)state;
  write_file(1, 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24);
  expect_array(2, shape, 6);
  write_file(2, 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24);
  expect_array(2, shape, 6);
}

static void reads_any_shape(void **state) {
  const uint64_t one[1] = {5}, empty[2] = {0, 7}, eight[8] = {1, 2, 1, 3, 1, 1, 2, 1}, large[2] = {1000, 1000};
  (void)state;
  write_file(1, 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }", 20);
  expect_array(1, one, 5);
  write_file(1, 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 4);
  expect_array(0, NULL, 1);
  write_file(1, 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 7), }", 0);
  expect_array(2, empty, 0);
  write_file(1, 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 1, 3, 1, 1, 2, 1), }", 48);
  expect_array(8, eight, 12);
  write_file(1, 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (1000, 1000), }", 4000000);
  expect_array(2, large, 1000000);
}

static void reads_other_spellings_of_the_header(void **state) {
  const uint64_t shape[2] = {2, 3};
  (void)state;
  write_file(1, 0, "{\"shape\":(2,3),\"descr\":\"<f4\",\"fortran_order\":False}", 24);
  expect_array(2, shape, 6);
  write_file(1, 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }", 24);
  expect_array(2, shape, 6);
  write_file(1, 0, "  { 'fortran_order' : False , 'shape' : ( 2 , 3 , ) , 'descr' : '<f4' }  ", 24);
  expect_array(2, shape, 6);
}

static void other_arrays_are_refused_with_the_reason(void **state) {
  (void)state;
  write_file(1, 0, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", 48);
  expect_error("'<f8'");
  write_file(1, 0, "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", 24);
  expect_error("'>f4'");
  write_file(1, 0, "{'descr': [('x', '<f4'), ('y', '<i4')], 'fortran_order': False, 'shape': (3,), }", 24);
  expect_error("structured");
  write_file(1, 0, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", 24);
  expect_error("Fortran order");
  write_file(1, 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1), }", 4);
  expect_error("more than 8 dimensions");
  write_file(3, 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24);
  expect_error("3.0");
  write_file(1, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24);
  expect_error("1.1");
}

static void damaged_headers_are_refused(void **state) {
  static const char *const headers[] = {
      "",
      "{",
      "}",
      "{'descr'",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (6), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-6,), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4), }",
      "{'descr': '<f4', 'fortran_order': False, }",
      "{'descr': '<f4', 'shape': (2, 3), }",
      "{'fortran_order': False, 'shape': (2, 3), }",
      "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2, 3), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'colour': 'blue', }",
      "{'descr': '<f4 and a name that is longer than any dtype can ever be', 'fortran_order': False, 'shape': (2, 3), }",
  };
  size_t i;
  (void)state;
  for (i = 0; i < sizeof headers / sizeof headers[0]; i++) {
    write_file(1, 0, headers[i], 24);
    expect_error("");
  }
}

static void truncated_and_longer_files_are_refused(void **state) {
  const off_t whole = 128 + 24;
  off_t size;
  (void)state;
  for (size = 0; size < whole; size++) {
    write_file(1, 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24);
    assert_int_equal(truncate(path, size), 0);
    expect_error(size < 8 ? "not an .npy file" : size < 128 ? "within its header" : "of 24 bytes");
  }
  write_file(1, 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 28);
  expect_error("goes on");
  /* A header that promises more than there is costs nothing. */
  write_file(1, 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000), }", 28);
  expect_error("after 28 of 4000000000000 bytes");
}

static void a_missing_file_is_named(void **state) {
  npy_array array;
  npy_error error;
  (void)state;
  assert_false(npy_read("/nowhere/a.npy", &array, &error));
  assert_non_null(strstr(error.text, "/nowhere/a.npy"));
  assert_false(npy_read("/", &array, &error));
}

/* Byte for byte what numpy.save writes. */
static void writes_what_numpy_writes(void **state) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  npy_array array = {2, {2, 3}, 6, data};
  npy_error error;
  unsigned char expected[256], written[256];
  FILE *file;
  (void)state;
  write_file(1, 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24);
  file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fread(expected, 1, sizeof expected, file), 152);
  fclose(file);
  assert_true(npy_write(path, &array, &error));
  file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fread(written, 1, sizeof written, file), 152);
  fclose(file);
  assert_memory_equal(written, expected, 152);
}

static void reads_what_it_writes(void **state) {
  static const npy_array arrays[] = {
      {0, {0}, 1, NULL},         {1, {5}, 5, NULL}, {2, {0, 4}, 0, NULL}, {8, {1, 2, 1, 3, 1, 1, 2, 1}, 12, NULL},
      {3, {4, 5, 6}, 120, NULL},
  };
  float data[120];
  npy_error error;
  size_t i;
  (void)state;
  for (i = 0; i < 120; i++) data[i] = (float)i;
  for (i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
    npy_array array = arrays[i];
    array.data = data;
    if (!npy_write(path, &array, &error)) fail_msg("%s", error.text);
    expect_array(array.rank, array.shape, array.elements);
  }
}

static void what_cannot_be_written_is_named(void **state) {
  float data = 1;
  npy_array array = {1, {1}, 1, &data};
  npy_error error;
  (void)state;
  assert_false(npy_write("/nowhere/a.npy", &array, &error));
  assert_non_null(strstr(error.text, "/nowhere/a.npy"));
  assert_false(npy_write("/dev/full", &array, &error));
  assert_non_null(strstr(error.text, "/dev/full"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      SIMPLER_TEST_WITH(reads_both_formats, &with_file),
      SIMPLER_TEST_WITH(reads_any_shape, &with_file),
      SIMPLER_TEST_WITH(reads_other_spellings_of_the_header, &with_file),
      SIMPLER_TEST_WITH(other_arrays_are_refused_with_the_reason, &with_file),
      SIMPLER_TEST_WITH(damaged_headers_are_refused, &with_file),
      SIMPLER_TEST_WITH(truncated_and_longer_files_are_refused, &with_file),
      SIMPLER_TEST_WITH(a_missing_file_is_named, &with_file),
      SIMPLER_TEST_WITH(writes_what_numpy_writes, &with_file),
      SIMPLER_TEST_WITH(reads_what_it_writes, &with_file),
      SIMPLER_TEST(what_cannot_be_written_is_named),
  };
  return simpler_run_tests(tests);
}
