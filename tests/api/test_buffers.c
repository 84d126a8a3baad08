/* Buffers: memory that the host and all chips share. */
#include <stdint.h>
#include <string.h>

#include "api.h"

static simpler_buffer *make_buffer(simpler_worker *worker, uint64_t bytes) {
  simpler_buffer *buffer;
  assert_ok(simpler_buffer_create(worker, bytes, &buffer, &err));
  assert_non_null(buffer);
  assert_int_equal(simpler_buffer_bytes(buffer), bytes);
  assert_non_null(simpler_buffer_data(buffer));
  assert_int_equal((uintptr_t)simpler_buffer_data(buffer) % 64, 0);
  return buffer;
}

static bool is_zero(simpler_buffer *buffer) {
  const unsigned char *bytes = simpler_buffer_data(buffer);
  uint64_t i, sum = 0;
  for (i = 0; i < simpler_buffer_bytes(buffer); i++) sum += bytes[i];
  return sum == 0;
}

static uint64_t gm_used(simpler_worker *worker) {
  simpler_worker_info info = SIMPLER_WORKER_INFO_INIT;
  assert_ok(simpler_worker_get_info(worker, &info, &err));
  return info.gm_bytes_used;
}

static void buffers_are_zeroed_also_when_memory_is_used_again(void **state) {
  simpler_worker_options options = api_options(*state, 1);
  simpler_worker *worker;
  static const uint64_t sizes[] = {1, 7, 64, 65, 4096, 100000, 700000};
  uint64_t before;
  size_t i;
  int round;
  options.gm_bytes = (uint64_t)1 << 20;
  worker = api_start_with(*state, &options);
  before = gm_used(worker);
  for (round = 0; round < 10; round++) {
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      simpler_buffer *buffer = make_buffer(worker, sizes[i]);
      assert_true(gm_used(worker) >= before + sizes[i]);
      assert_true(is_zero(buffer));
      memset(simpler_buffer_data(buffer), 0xff, sizes[i]);
      assert_ok(simpler_buffer_release(buffer, &err));
      assert_int_equal(gm_used(worker), before);
    }
  }
}

static void buffers_do_not_overlap(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_buffer *buffers[50];
  int i, k;
  for (i = 0; i < 50; i++) {
    buffers[i] = make_buffer(worker, 1 + 13 * (uint64_t)i);
    memset(simpler_buffer_data(buffers[i]), i + 1, simpler_buffer_bytes(buffers[i]));
  }
  for (i = 0; i < 50; i++) {
    const unsigned char *bytes = simpler_buffer_data(buffers[i]);
    for (k = 0; k < 1 + 13 * i; k++) assert_int_equal(bytes[k], i + 1);
  }
}

/* P107 */
static void P107_a_buffer_made_after_the_start_is_there_on_every_chip(void **state) {
  simpler_worker *worker = api_start(*state, 3);
  simpler_callable *fill = api_register_kernel(worker, "fill"), *copy = api_register_kernel(worker, "copy");
  simpler_buffer *first, *second;
  uint64_t value, i;
  int32_t chip, other;
  first = make_buffer(worker, 8000);
  for (chip = 0; chip < 3; chip++) {
    for (other = 0; other < 3; other++) {
      simpler_tensor_arg tensors[2];
      simpler_task task;
      second = make_buffer(worker, 8000);
      value = 100 * (uint64_t)chip + (uint64_t)other + 1;
      tensors[0] = api_buffer_words(first);
      tensors[0].tag = SIMPLER_TAG_OUTPUT_EXISTING;
      task = api_task(fill, chip, tensors, 1, &value, 1);
      assert_ok(simpler_worker_run(worker, &task, NULL, &err));
      tensors[0].tag = SIMPLER_TAG_INPUT; /* contents stay between runs, whichever chip wrote them */
      tensors[1] = api_buffer_words(second);
      task = api_task(copy, other, tensors, 2, NULL, 0);
      assert_ok(simpler_worker_run(worker, &task, NULL, &err));
      for (i = 0; i < 1000; i++) assert_int_equal(((uint64_t *)simpler_buffer_data(second))[i], value);
      assert_ok(simpler_buffer_release(second, &err));
    }
  }
}

static void the_host_and_chips_see_each_others_writes_at_once(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  api_gate gate = api_gate_make(worker); /* the gate itself is the proof: set by the host, counted by the kernel */
  simpler_run *run = api_gate_enter(worker, &gate, 0);
  assert_int_equal(simpler_run_wait(run, 0, NULL), SIMPLER_TIMEOUT);
  api_gate_open(&gate);
  api_finish(run);
}

/* P99 */
static void P99_a_buffer_in_use_is_busy(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  api_gate gate = api_gate_make(worker);
  simpler_buffer *queued = make_buffer(worker, 64);
  simpler_run *running = api_gate_enter(worker, &gate, 0);
  simpler_run *behind = api_submit_buffer(worker, api_register_kernel(worker, "increment"), 0, queued, NULL, 0);
  int i;
  for (i = 0; i < 3; i++) {
    assert_fails(SIMPLER_BUSY, "", simpler_buffer_release(gate.buffer, &err));
    assert_fails(SIMPLER_BUSY, "", simpler_buffer_release(queued, &err));
  }
  assert_int_equal(simpler_run_wait(running, 0, NULL), SIMPLER_TIMEOUT); /* a timed-out wait ends nothing */
  assert_fails(SIMPLER_BUSY, "", simpler_buffer_release(gate.buffer, &err));
  api_gate_open(&gate);
  api_finish(running);
  api_finish(behind);
  assert_int_equal(*(uint64_t *)simpler_buffer_data(queued), 1);
  assert_ok(simpler_buffer_release(gate.buffer, &err));
  assert_ok(simpler_buffer_release(queued, &err));
}

/* P99: a run whose handle was released early uses its buffers all the same. */
static void P99_a_run_without_a_handle_keeps_its_buffer_busy(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  api_gate gate = api_gate_make(worker);
  simpler_run *run = api_gate_enter(worker, &gate, 0);
  assert_ok(simpler_run_release(run, &err));
  assert_fails(SIMPLER_BUSY, "", simpler_buffer_release(gate.buffer, &err));
  api_gate_open(&gate);
  assert_ok(api_run(worker, api_register_kernel(worker, "nothing"), 0, NULL, 0, NULL, 0, &err)); /* behind it */
  assert_ok(simpler_buffer_release(gate.buffer, &err));
}

static void a_buffer_is_free_after_a_failed_run(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_buffer *buffer = make_buffer(worker, 64);
  simpler_run *run = api_submit_buffer(worker, api_register_kernel(worker, "fail"), 0, buffer, NULL, 0);
  assert_fails(SIMPLER_KERNEL_FAILED, "", simpler_run_wait(run, SIMPLER_FOREVER, &err));
  assert_ok(simpler_buffer_release(buffer, &err)); /* the run's handle is still there */
  assert_ok(simpler_run_release(run, &err));
}

/* C30 */
static void C30_released_buffers_are_refused(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callable = api_register_kernel(worker, "increment");
  simpler_buffer *buffer = make_buffer(worker, 64);
  const simpler_tensor_arg tensor = api_buffer_words(buffer);
  const simpler_task task = api_task(callable, 0, &tensor, 1, NULL, 0);
  assert_ok(simpler_worker_run(worker, &task, NULL, &err));
  assert_ok(simpler_buffer_release(buffer, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_buffer_release(buffer, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "buffer", simpler_worker_run(worker, &task, NULL, &err));
  assert_null(simpler_buffer_data(buffer));
  assert_int_equal(simpler_buffer_bytes(buffer), 0);
  assert_null(simpler_buffer_data(NULL));
  assert_int_equal(simpler_buffer_bytes(NULL), 0);
  assert_ok(simpler_buffer_release(NULL, &err));
}

static void bad_sizes_are_refused(void **state) {
  simpler_worker_options options = api_options(*state, 1);
  simpler_worker *worker;
  simpler_buffer *buffer = (simpler_buffer *)1, *first, *second;
  options.gm_bytes = (uint64_t)1 << 20;
  worker = api_start_with(*state, &options);
  assert_fails(SIMPLER_INVALID_ARGUMENT, "bytes", simpler_buffer_create(worker, 0, &buffer, &err));
  assert_null(buffer);
  assert_fails(SIMPLER_CAPACITY_MEMORY, "gm_bytes", simpler_buffer_create(worker, (uint64_t)2 << 20, &buffer, &err));
  assert_null(buffer);
  assert_fails(SIMPLER_CAPACITY_MEMORY, "gm_bytes", simpler_buffer_create(worker, UINT64_MAX, &buffer, &err));
  assert_fails(SIMPLER_CAPACITY_MEMORY, "gm_bytes", simpler_buffer_create(worker, UINT64_MAX - 63, &buffer, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "buffer", simpler_buffer_create(worker, 64, NULL, &err));
  first = make_buffer(worker, 400000);
  second = make_buffer(worker, 400000);
  assert_fails(SIMPLER_CAPACITY_MEMORY, "400000", simpler_buffer_create(worker, 400000, &buffer, &err));
  assert_ok(simpler_buffer_release(first, &err));
  make_buffer(worker, 400000);
  assert_ok(simpler_buffer_release(second, &err));
}

/* The whole of the memory can be had again after it was in pieces. */
static void pieces_grow_together_again(void **state) {
  simpler_worker_options options = api_options(*state, 1);
  simpler_worker *worker;
  simpler_buffer *pieces[100];
  int i;
  options.gm_bytes = (uint64_t)1 << 20;
  worker = api_start_with(*state, &options);
  for (i = 0; i < 100; i++) pieces[i] = make_buffer(worker, 8000);
  for (i = 0; i < 100; i += 2) assert_ok(simpler_buffer_release(pieces[i], &err));
  for (i = 1; i < 100; i += 2) assert_ok(simpler_buffer_release(pieces[i], &err));
  assert_ok(simpler_buffer_release(make_buffer(worker, 900000), &err));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      API_TEST_BOTH(buffers_are_zeroed_also_when_memory_is_used_again),
      API_TEST_BOTH(buffers_do_not_overlap),
      API_TEST_BOTH(P107_a_buffer_made_after_the_start_is_there_on_every_chip),
      API_TEST_BOTH(the_host_and_chips_see_each_others_writes_at_once),
      API_TEST_BOTH(P99_a_buffer_in_use_is_busy),
      API_TEST_BOTH(P99_a_run_without_a_handle_keeps_its_buffer_busy),
      API_TEST_BOTH(a_buffer_is_free_after_a_failed_run),
      API_TEST_BOTH(C30_released_buffers_are_refused),
      API_TEST_BOTH(bad_sizes_are_refused),
      API_TEST_BOTH(pieces_grow_together_again),
  };
  return api_run_tests(tests);
}
