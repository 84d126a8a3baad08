/* Tensor arguments: host memory by pointer, buffers, tags, views, aliases, limits, what is refused.
 * ctest: TIMEOUT 120 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"

#define ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

static simpler_tensor_arg vector(uint64_t *words, uint64_t count, simpler_tag tag) {
  simpler_tensor_arg a = api_words(words, count);
  a.tag = tag;
  return a;
}

static simpler_status run_kernel(simpler_worker *worker, const char *kernel, const simpler_tensor_arg *tensors,
                                 uint32_t tensor_count, const uint64_t *scalars, uint32_t scalar_count,
                                 simpler_error **err) {
  simpler_callable *callable = api_register_kernel(worker, kernel);
  const simpler_task task = api_task(callable, 0, tensors, tensor_count, scalars, scalar_count);
  const simpler_status status = simpler_worker_run(worker, &task, NULL, err);
  simpler_worker_unregister(worker, callable, NULL);
  return status;
}

/* ---- tags ------------------------------------------------------------------------------------------------------------ */

static void tags_say_what_is_copied(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  const uint64_t value = 9;
  uint64_t input[3] = {1, 2, 3}, inout[3] = {1, 2, 3}, output[3] = {1, 2, 3};
  simpler_tensor_arg t;
  t = vector(input, 3, SIMPLER_TAG_INPUT); /* a kernel that writes its input changes a copy */
  assert_ok(run_kernel(worker, "touch_first", &t, 1, &value, 1, &err));
  assert_int_equal(input[0], 1);
  t = vector(inout, 3, SIMPLER_TAG_INOUT);
  assert_ok(run_kernel(worker, "touch_first", &t, 1, &value, 1, &err));
  assert_int_equal(inout[0], 9);
  assert_int_equal(inout[1], 2);
  assert_int_equal(inout[2], 3);
  t = vector(output, 3, SIMPLER_TAG_OUTPUT_EXISTING); /* elements that nobody writes come back as zero */
  assert_ok(run_kernel(worker, "touch_first", &t, 1, &value, 1, &err));
  assert_int_equal(output[0], 9);
  assert_int_equal(output[1], 0);
  assert_int_equal(output[2], 0);
}

/* Unwritten elements are zero, and not what an earlier run left in that memory. */
static void unwritten_outputs_are_never_another_runs_data(void **state) {
  simpler_worker_options options = api_options(*state, 1);
  simpler_worker *worker;
  enum {
    N = 40000
  };
  uint64_t *words = malloc(N * sizeof *words);
  const uint64_t secret = 0x5ec7e7, value = 1;
  int round, i;
  options.gm_bytes = 1 << 20; /* small, so that memory is used again */
  worker = api_start_with(*state, &options);
  for (round = 0; round < 20; round++) {
    simpler_tensor_arg t = vector(words, N, SIMPLER_TAG_OUTPUT_EXISTING);
    uint64_t wrong = 0;
    assert_ok(run_kernel(worker, "fill", &t, 1, &secret, 1, &err));
    assert_int_equal(words[N - 1], secret);
    assert_ok(run_kernel(worker, "touch_first", &t, 1, &value, 1, &err));
    assert_int_equal(words[0], 1);
    for (i = 1; i < N; i++) wrong += words[i] != 0;
    assert_int_equal(wrong, 0);
  }
  free(words);
}

/* P98 */
static void P98_a_failed_run_leaves_host_memory_as_it_was(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  uint64_t inout[100], output[100];
  simpler_buffer *buffer;
  uint64_t *shared;
  simpler_tensor_arg tensors[3];
  int i;
  assert_ok(simpler_buffer_create(worker, 80, &buffer, &err));
  shared = simpler_buffer_data(buffer);
  for (i = 0; i < 100; i++) inout[i] = output[i] = (uint64_t)i;
  tensors[0] = vector(inout, 100, SIMPLER_TAG_INOUT);
  tensors[1] = vector(output, 100, SIMPLER_TAG_OUTPUT_EXISTING);
  tensors[2] = api_buffer_words(buffer);
  assert_fails(SIMPLER_KERNEL_FAILED, "failing on purpose", run_kernel(worker, "fail", tensors, 3, NULL, 0, &err));
  for (i = 0; i < 100; i++) {
    assert_int_equal(inout[i], i);
    assert_int_equal(output[i], i);
  }
  for (i = 0; i < 10; i++) assert_int_equal(shared[i], 77); /* a buffer has what the kernel wrote */
}

/* P98: outputs are in place when the wait returns, whole. */
static void P98_large_outputs_are_complete_when_run_returns(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  const uint64_t count = 8 << 20; /* 64 MiB */
  uint64_t *words = malloc(count * sizeof *words), round, i;
  simpler_callable *callable = api_register_kernel(worker, "fill");
  const simpler_tensor_arg tensor = vector(words, count, SIMPLER_TAG_OUTPUT_EXISTING);
  for (round = 1; round <= 3; round++) {
    const simpler_task task = api_task(callable, 0, &tensor, 1, &round, 1);
    uint64_t wrong = 0;
    assert_ok(simpler_worker_run(worker, &task, NULL, &err));
    for (i = 0; i < count; i++) wrong += words[i] != round;
    assert_int_equal(wrong, 0);
  }
  free(words);
}

/* ---- memory ----------------------------------------------------------------------------------------------------------- */

static void buffers_and_host_memory_mix_in_one_task(void **state) {
  simpler_worker *worker = api_start(*state, 2);
  simpler_callable *callable = api_register_kernel(worker, "add");
  simpler_buffer *buffer;
  const uint64_t eight = 8;
  uint64_t host[8], *shared, chip, i;
  simpler_tensor_arg tensors[3];
  assert_ok(simpler_buffer_create(worker, 4096, &buffer, &err));
  shared = simpler_buffer_data(buffer);
  for (chip = 0; chip < 2; chip++) {
    const simpler_task task = api_task(callable, (int32_t)chip, tensors, 3, NULL, 0);
    for (i = 0; i < 8; i++) {
      host[i] = 100 * i;
      shared[i] = i;
      shared[64 + i] = 7777;
    }
    tensors[0] = vector(host, 8, SIMPLER_TAG_INPUT);
    tensors[1] = simpler_tensor_arg_make_in_buffer(buffer, 0, SIMPLER_TAG_INPUT, SIMPLER_DTYPE_UINT64, 1, &eight);
    tensors[2] =
        simpler_tensor_arg_make_in_buffer(buffer, 512, SIMPLER_TAG_OUTPUT_EXISTING, SIMPLER_DTYPE_UINT64, 1, &eight);
    assert_ok(simpler_worker_run(worker, &task, NULL, &err));
    for (i = 0; i < 8; i++) assert_int_equal(shared[64 + i], 101 * i);
    assert_int_equal(shared[63], 0);
    assert_int_equal(shared[72], 0);
  }
}

static void the_same_memory_twice_is_the_same_memory_on_the_chip(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  uint64_t words[6] = {1, 2, 3, 4, 5, 6}, i;
  simpler_tensor_arg tensors[3];
  /* x += x */
  tensors[0] = tensors[1] = vector(words, 6, SIMPLER_TAG_INPUT);
  tensors[2] = vector(words, 6, SIMPLER_TAG_INOUT);
  assert_ok(run_kernel(worker, "add", tensors, 3, NULL, 0, &err));
  for (i = 0; i < 6; i++) assert_int_equal(words[i], 2 * (i + 1));
}

/* Overlaps in part: a copy from element 0 to element 1 on hands the first element through, as on the host. */
static void overlapping_memory_overlaps_on_the_chip(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  uint64_t words[9] = {5, 1, 2, 3, 4, 6, 7, 8, 9}, i;
  simpler_tensor_arg tensors[2];
  tensors[0] = vector(words, 8, SIMPLER_TAG_INPUT);
  tensors[1] = vector(words + 1, 8, SIMPLER_TAG_INOUT);
  assert_ok(run_kernel(worker, "copy", tensors, 2, NULL, 0, &err));
  for (i = 0; i < 9; i++) assert_int_equal(words[i], 5);
}

static void host_memory_needs_no_alignment(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  char bytes[100], expected[100];
  simpler_tensor_arg tensors[2];
  const uint64_t shape = 3;
  memset(bytes, 1, sizeof bytes);
  memcpy(expected, bytes, sizeof bytes);
  memset(bytes + 3, 2, 24);
  memset(expected + 3, 2, 24);
  memset(expected + 41, 2, 24);
  tensors[0] = simpler_tensor_arg_make(bytes + 3, SIMPLER_TAG_INPUT, SIMPLER_DTYPE_UINT64, 1, &shape);
  tensors[1] = simpler_tensor_arg_make(bytes + 41, SIMPLER_TAG_OUTPUT_EXISTING, SIMPLER_DTYPE_UINT64, 1, &shape);
  assert_ok(run_kernel(worker, "copy", tensors, 2, NULL, 0, &err));
  assert_memory_equal(bytes, expected, sizeof bytes);
}

/* ---- views ------------------------------------------------------------------------------------------------------------ */

static simpler_tensor_arg matrix(uint64_t *words, uint64_t rows, uint64_t columns, simpler_tag tag) {
  const uint64_t shape[2] = {rows, columns};
  return simpler_tensor_arg_make(words, tag, SIMPLER_DTYPE_UINT64, 2, shape);
}

/* Every second row and every third column: what lies between is neither read nor changed. */
static void strided_views_leave_the_gaps_alone(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  uint64_t from[10 * 12], to[10 * 12], row, column;
  simpler_tensor_arg tensors[2] = {matrix(from, 5, 4, SIMPLER_TAG_INPUT), matrix(to, 5, 4, SIMPLER_TAG_INOUT)};
  int round;
  tensors[0].strides[0] = tensors[1].strides[0] = 24;
  tensors[0].strides[1] = tensors[1].strides[1] = 3;
  for (round = 0; round < 2; round++) {
    for (row = 0; row < 120; row++) {
      from[row] = 1000 + row;
      to[row] = row;
    }
    assert_ok(run_kernel(worker, "copy", tensors, 2, NULL, 0, &err));
    for (row = 0; row < 10; row++) {
      for (column = 0; column < 12; column++) {
        const uint64_t i = row * 12 + column;
        assert_int_equal(to[i], row % 2 == 0 && column % 3 == 0 ? 1000 + i : i);
      }
    }
    tensors[1].tag = SIMPLER_TAG_OUTPUT_EXISTING;
  }
}

static void transposed_views_are_read_and_written(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  uint64_t from[3 * 5], to[5 * 3], back[3 * 5], i, k;
  simpler_tensor_arg tensors[2] = {matrix(from, 5, 3, SIMPLER_TAG_INPUT), matrix(to, 5, 3, SIMPLER_TAG_OUTPUT_EXISTING)};
  for (i = 0; i < 15; i++) from[i] = i;
  tensors[0].strides[0] = 1;
  tensors[0].strides[1] = 5;
  assert_ok(run_kernel(worker, "copy", tensors, 2, NULL, 0, &err));
  for (i = 0; i < 5; i++) {
    for (k = 0; k < 3; k++) assert_int_equal(to[i * 3 + k], from[k * 5 + i]);
  }
  tensors[0] = matrix(to, 5, 3, SIMPLER_TAG_INPUT);
  tensors[1] = matrix(back, 5, 3, SIMPLER_TAG_OUTPUT_EXISTING);
  tensors[1].strides[0] = 1;
  tensors[1].strides[1] = 5;
  assert_ok(run_kernel(worker, "copy", tensors, 2, NULL, 0, &err));
  assert_memory_equal(from, back, sizeof from);
}

static void inputs_may_be_broadcast_with_stride_zero(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  uint64_t row[4] = {1, 2, 3, 4}, to[12], i;
  simpler_tensor_arg tensors[2] = {matrix(row, 3, 4, SIMPLER_TAG_INPUT), matrix(to, 3, 4, SIMPLER_TAG_OUTPUT_EXISTING)};
  tensors[0].strides[0] = 0;
  assert_ok(run_kernel(worker, "copy", tensors, 2, NULL, 0, &err));
  for (i = 0; i < 12; i++) assert_int_equal(to[i], 1 + i % 4);
}

static void strided_views_of_buffers_are_not_copied(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_buffer *buffer;
  uint64_t *words, i;
  const uint64_t shape[2] = {4, 4};
  simpler_tensor_arg tensors[2];
  assert_ok(simpler_buffer_create(worker, 64 * 8, &buffer, &err));
  words = simpler_buffer_data(buffer);
  for (i = 0; i < 64; i++) words[i] = i;
  tensors[0] = simpler_tensor_arg_make_in_buffer(buffer, 0, SIMPLER_TAG_INPUT, SIMPLER_DTYPE_UINT64, 2, shape);
  tensors[1] = simpler_tensor_arg_make_in_buffer(buffer, 32, SIMPLER_TAG_INOUT, SIMPLER_DTYPE_UINT64, 2, shape);
  tensors[0].strides[0] = tensors[1].strides[0] = 8; /* the left and the right half of an 8x8 matrix */
  assert_ok(run_kernel(worker, "copy", tensors, 2, NULL, 0, &err));
  for (i = 0; i < 32; i++) assert_int_equal(words[i], i % 8 < 4 ? i : i - 4);
  for (i = 32; i < 64; i++) assert_int_equal(words[i], i);
}

static void tensors_may_have_eight_dimensions(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  const uint64_t shape[8] = {2, 3, 1, 2, 2, 1, 2, 3};
  uint64_t from[144], to[144], i;
  simpler_tensor_arg tensors[2];
  for (i = 0; i < 144; i++) from[i] = i * i;
  tensors[0] = simpler_tensor_arg_make(from, SIMPLER_TAG_INPUT, SIMPLER_DTYPE_UINT64, 8, shape);
  tensors[1] = simpler_tensor_arg_make(to, SIMPLER_TAG_OUTPUT_EXISTING, SIMPLER_DTYPE_UINT64, 8, shape);
  assert_ok(run_kernel(worker, "copy", tensors, 2, NULL, 0, &err));
  assert_memory_equal(from, to, sizeof from);
}

static void empty_tensors_touch_nothing(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  uint64_t words[4] = {1, 2, 3, 4};
  const simpler_tag tags[3] = {SIMPLER_TAG_INPUT, SIMPLER_TAG_INOUT, SIMPLER_TAG_OUTPUT_EXISTING};
  const uint64_t value = 9;
  simpler_buffer *buffer;
  simpler_tensor_arg tensor;
  int i;
  for (i = 0; i < 3; i++) {
    tensor = vector(words, 0, tags[i]);
    assert_ok(run_kernel(worker, "fill", &tensor, 1, &value, 1, &err));
    tensor = matrix(words, 3, 0, tags[i]);
    assert_ok(run_kernel(worker, "fill", &tensor, 1, &value, 1, &err));
    assert_int_equal(words[0], 1);
  }
  assert_ok(simpler_buffer_create(worker, 64, &buffer, &err));
  tensor = api_buffer_words(buffer);
  tensor.shape[0] = 0;
  tensor.offset = 64; /* at the end: nothing is there, and nothing is needed */
  assert_ok(run_kernel(worker, "fill", &tensor, 1, &value, 1, &err));
  assert_int_equal(((uint64_t *)simpler_buffer_data(buffer))[7], 0);
}

static void all_dtypes_travel(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_dtype dtype;
  for (dtype = SIMPLER_DTYPE_BOOL; dtype <= SIMPLER_DTYPE_FLOAT4_E2M1; dtype++) {
    unsigned char bytes[8 * 24], expected[8 * 24];
    const uint64_t shape[2] = {6, 4};
    simpler_tensor_arg tensor = simpler_tensor_arg_make(bytes, SIMPLER_TAG_INOUT, dtype, 2, shape);
    size_t i;
    for (i = 0; i < sizeof bytes; i++) bytes[i] = expected[i] = (unsigned char)(i % 2);
    assert_ok(run_kernel(worker, "nothing", &tensor, 1, NULL, 0, &err));
    assert_memory_equal(bytes, expected, sizeof bytes);
    tensor.tag = SIMPLER_TAG_OUTPUT_EXISTING;
    memset(expected, 0, 24 * simpler_dtype_bits(dtype) / 8);
    assert_ok(run_kernel(worker, "nothing", &tensor, 1, NULL, 0, &err));
    assert_memory_equal(bytes, expected, sizeof bytes);
  }
}

/* ---- limits ------------------------------------------------------------------------------------------------------------ */

/* P50, P51 */
static void P50_a_task_takes_as_many_arguments_as_documented(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  static const uint32_t counts[] = {0, 1, 16, 17, 128, 129, 256, 1000, SIMPLER_TENSORS_MAX};
  static simpler_tensor_arg tensors[SIMPLER_TENSORS_MAX + 1];
  static uint64_t words[SIMPLER_TENSORS_MAX + 1], scalars[SIMPLER_SCALARS_MAX + 1];
  simpler_task task = api_task(api_register_kernel(worker, "next_cell"), 0, tensors, 0, scalars, SIMPLER_SCALARS_MAX);
  size_t i;
  uint32_t k;
  for (k = 0; k <= SIMPLER_TENSORS_MAX; k++) {
    words[k] = k;
    tensors[k] = vector(&words[k], 1, SIMPLER_TAG_INPUT);
  }
  for (i = 1; i < ELEMENTS(counts); i++) {
    const uint64_t n = counts[i];
    tensors[n - 1].tag = SIMPLER_TAG_INOUT;
    task.tensor_count = counts[i];
    assert_ok(simpler_worker_run(worker, &task, NULL, &err));
    assert_int_equal(words[n - 1], 1 + (n - 1) * (n - 2) / 2); /* 1 + 0 + 1 + ... + (n - 2) */
    words[n - 1] = n - 1;
    tensors[n - 1].tag = SIMPLER_TAG_INPUT;
  }
  task.tensor_count = SIMPLER_TENSORS_MAX + 1;
  assert_fails(SIMPLER_CAPACITY_ARGUMENTS, "4096", simpler_worker_run(worker, &task, NULL, &err));
  task.tensor_count = 1;
  task.scalar_count = SIMPLER_SCALARS_MAX + 1;
  assert_fails(SIMPLER_CAPACITY_ARGUMENTS, "4096", simpler_worker_run(worker, &task, NULL, &err));
}

static void memory_that_does_not_fit_is_refused_with_the_option(void **state) {
  simpler_worker_options options = api_options(*state, 1);
  simpler_worker *worker;
  const uint64_t value = 3, large = 1 << 20, small = 1 << 14;
  uint64_t *words = calloc(large, sizeof *words);
  simpler_tensor_arg tensor;
  int i;
  options.gm_bytes = (uint64_t)1 << 20;
  worker = api_start_with(*state, &options);
  tensor = vector(words, large, SIMPLER_TAG_OUTPUT_EXISTING);
  assert_fails(SIMPLER_CAPACITY_MEMORY, "gm_bytes", run_kernel(worker, "fill", &tensor, 1, &value, 1, &err));
  tensor = vector(words, small, SIMPLER_TAG_OUTPUT_EXISTING);
  for (i = 0; i < 50; i++) { /* what a run used is free for the next */
    words[small - 1] = 0;
    assert_ok(run_kernel(worker, "fill", &tensor, 1, &value, 1, &err));
    assert_int_equal(words[small - 1], 3);
  }
  free(words);
}

/* ---- what is refused ---------------------------------------------------------------------------------------------------- */

static void bad_tensors_are_refused_by_name(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callable = api_register_kernel(worker, "nothing");
  uint64_t words[4] = {1, 2, 3, 4};
  simpler_buffer *buffer;
  simpler_tensor_arg t;
  const simpler_task task = api_task(callable, 0, &t, 1, NULL, 0);
  simpler_run *run = (simpler_run *)1;
#define REFUSED(part)                                                                                     \
  do {                                                                                                    \
    assert_fails(SIMPLER_INVALID_ARGUMENT, part, simpler_worker_submit(worker, &task, NULL, &run, &err)); \
    assert_null(run);                                                                                     \
    t = vector(words, 4, SIMPLER_TAG_INOUT);                                                              \
  } while (0)
  assert_ok(simpler_buffer_create(worker, 64, &buffer, &err));
  t = vector(words, 4, 0);
  REFUSED("tag");
  t.tag = SIMPLER_TAG_OUTPUT; /* the runtime's memory: in orchestrations only */
  REFUSED("tag");
  t.tag = 6;
  REFUSED("tag");
  t.dtype = 0;
  REFUSED("dtype");
  t.dtype = 17;
  REFUSED("dtype");
  t.rank = 0;
  REFUSED("rank");
  t.rank = SIMPLER_RANK_MAX + 1;
  REFUSED("rank");
  t.rank = UINT32_MAX;
  REFUSED("rank");
  t.reserved = 1;
  REFUSED("reserved");
  t.data = NULL;
  REFUSED("data");
  t.buffer = buffer; /* both */
  REFUSED("buffer");
  t.offset = 8; /* of host memory */
  REFUSED("offset");
  t.strides[0] = 0;
  REFUSED("stride");
  t.shape[0] = (uint64_t)1 << 62;
  REFUSED("");
  t.strides[0] = UINT64_MAX;
  REFUSED("");
  t.rank = 2;
  t.shape[1] = UINT64_MAX;
  t.strides[1] = 1;
  REFUSED("");
  t = api_buffer_words(buffer);
  t.shape[0] = 9;
  REFUSED("buffer");
  t = api_buffer_words(buffer);
  t.offset = 8;
  REFUSED("buffer");
  t = api_buffer_words(buffer);
  t.strides[0] = 2;
  REFUSED("buffer");
  t = api_buffer_words(buffer);
  t.offset = UINT64_MAX - 7;
  REFUSED("");
  t = api_buffer_words(buffer);
  t.shape[0] = 0;
  t.offset = 65;
  REFUSED("");
#undef REFUSED
}

static void bad_tasks_are_refused_by_name(void **state) {
  simpler_worker *worker = api_start(*state, 2);
  simpler_callable *callable = api_register_kernel(worker, "nothing");
  simpler_run_options options = SIMPLER_RUN_OPTIONS_INIT;
  simpler_task task = api_task(callable, 0, NULL, 0, NULL, 0);
  const simpler_task good = task;
  simpler_run *run = (simpler_run *)1;
#define REFUSED(part)                                                                                         \
  do {                                                                                                        \
    assert_fails(SIMPLER_INVALID_ARGUMENT, part, simpler_worker_submit(worker, &task, &options, &run, &err)); \
    assert_null(run);                                                                                         \
    task = good;                                                                                              \
    options = (simpler_run_options)SIMPLER_RUN_OPTIONS_INIT;                                                  \
  } while (0)
  assert_fails(SIMPLER_INVALID_ARGUMENT, "task", simpler_worker_submit(worker, NULL, NULL, &run, &err));
  assert_null(run);
  assert_fails(SIMPLER_INVALID_ARGUMENT, "run", simpler_worker_submit(worker, &task, NULL, NULL, &err));
  task.struct_size = 0;
  REFUSED("struct_size");
  task.chip = 2;
  REFUSED("chip");
  task.chip = -2;
  REFUSED("chip");
  task.chip = INT32_MIN;
  REFUSED("chip");
  task.tensor_count = 1;
  REFUSED("tensors");
  task.scalar_count = 1;
  REFUSED("scalars");
  task.reserved = 1;
  REFUSED("reserved");
  options.struct_size = 0;
  REFUSED("struct_size");
  options.window = 3;
  REFUSED("window");
  options.window = 8192; /* more than the worker's */
  REFUSED("window");
  options.heap_bytes = 1000;
  REFUSED("heap_bytes");
  options.heap_bytes = (uint64_t)1 << 40;
  REFUSED("heap_bytes");
  options.reserved = 1;
  REFUSED("reserved");
#undef REFUSED
}

int main(void) {
  const struct CMUnitTest tests[] = {
      API_TEST_BOTH(tags_say_what_is_copied),
      API_TEST_BOTH(unwritten_outputs_are_never_another_runs_data),
      API_TEST_BOTH(P98_a_failed_run_leaves_host_memory_as_it_was),
      API_TEST_BOTH(P98_large_outputs_are_complete_when_run_returns),
      API_TEST_BOTH(buffers_and_host_memory_mix_in_one_task),
      API_TEST_BOTH(the_same_memory_twice_is_the_same_memory_on_the_chip),
      API_TEST_BOTH(overlapping_memory_overlaps_on_the_chip),
      API_TEST_BOTH(host_memory_needs_no_alignment),
      API_TEST_BOTH(strided_views_leave_the_gaps_alone),
      API_TEST_BOTH(transposed_views_are_read_and_written),
      API_TEST_BOTH(inputs_may_be_broadcast_with_stride_zero),
      API_TEST_BOTH(strided_views_of_buffers_are_not_copied),
      API_TEST_BOTH(tensors_may_have_eight_dimensions),
      API_TEST_BOTH(empty_tensors_touch_nothing),
      API_TEST_BOTH(all_dtypes_travel),
      API_TEST_BOTH(P50_a_task_takes_as_many_arguments_as_documented),
      API_TEST_BOTH(memory_that_does_not_fit_is_refused_with_the_option),
      API_TEST_BOTH(bad_tensors_are_refused_by_name),
      API_TEST_BOTH(bad_tasks_are_refused_by_name),
  };
  return api_run_tests(tests);
}
