/* The programming model beyond single kernels: MIX tasks and their FIFOs, synchronised starts, predicates, scalars of tensors,
 * signals, deferred completion, seeded mode.
 * ctest: TIMEOUT 120 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../callables/model.h"
#include "api.h"
#include "simpler/device.h"

#define ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))
enum {
  WORDS = 64,
  CLUSTERS = 24,
  AIC = 1,
  AIV = 2,
  MIX = 7
};

/* One worker for the scenarios of one test. */
typedef struct model {
  simpler_worker *worker;
  simpler_callable *callable;
  simpler_buffer *buffer; /* not host memory: what a failed run has written can be seen as well */
  uint64_t *words;        /* its WORDS words */
} model;

static model model_start_with(void *state, simpler_worker_options *options) {
  model m;
  m.worker = api_start_with(state, options);
  m.callable = api_register(m.worker, "model");
  assert_ok(simpler_buffer_create(m.worker, WORDS * sizeof(uint64_t), &m.buffer, &err));
  m.words = simpler_buffer_data(m.buffer);
  return m;
}

static model model_start(void *state, uint32_t carriers) {
  simpler_worker_options options = api_options(state, 1);
  options.carriers_per_chip = carriers;
  return model_start_with(state, &options);
}

#define SCALARS(...) (const uint64_t[]){__VA_ARGS__}, (uint32_t)(sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* Runs a scenario on words that are zero. */
static simpler_status run_seeded(model *m, uint64_t seed, const uint64_t *scalars, uint32_t count, simpler_error **err) {
  const simpler_tensor_arg tensor = api_buffer_words(m->buffer);
  const simpler_task task = api_task(m->callable, 0, &tensor, 1, scalars, count);
  simpler_run_options options = SIMPLER_RUN_OPTIONS_INIT;
  options.seed = seed;
  memset(m->words, 0, WORDS * sizeof *m->words);
  return simpler_worker_run(m->worker, &task, &options, err);
}

static simpler_status run(model *m, const uint64_t *scalars, uint32_t count, simpler_error **err) {
  return run_seeded(m, 0, scalars, count, err);
}

/* It succeeds, and nothing was wrong. */
#define assert_runs(m, ...)                          \
  do {                                               \
    assert_ok(run((m), SCALARS(__VA_ARGS__), &err)); \
    assert_int_equal((m)->words[0], 0);              \
  } while (0)

/* ---- MIX ------------------------------------------------------------------------------------------------------------ */

static void parts_of_a_mix_task_pass_words(void **state) {
  model m = model_start(*state, 0);
  const uint64_t blocks[] = {1, 2, CLUSTERS, CLUSTERS + 1, 50},
                 words[] = {0, 1, SIMPLER_FIFO_WORDS, SIMPLER_FIFO_WORDS + 1, 300};
  size_t b, w;
  for (b = 0; b < ELEMENTS(blocks); b++) {
    for (w = 0; w < ELEMENTS(words); w++) {
      assert_runs(&m, MODEL_FIFO, blocks[b], words[w]);
      assert_int_equal(m.words[1], blocks[b] * 3 * words[w] * (words[w] + 1) / 2);
    }
  }
}

static void parts_of_a_mix_task_sit_in_one_cluster(void **state) {
  model m = model_start(*state, 0);
  const uint64_t shapes[] = {3, 5, 6, MIX}, blocks[] = {1, CLUSTERS, 40};
  size_t s, b;
  for (s = 0; s < ELEMENTS(shapes); s++) {
    for (b = 0; b < ELEMENTS(blocks); b++) {
      assert_runs(&m, MODEL_PARTS, blocks[b], shapes[s]);
      assert_int_equal(m.words[1], blocks[b] * (shapes[s] == MIX ? 3 : 2));
    }
  }
}

static void parts_of_a_mix_task_meet_at_barriers(void **state) {
  model m = model_start(*state, 0);
  assert_runs(&m, MODEL_MIX_BARRIER, 1, 100);
  assert_int_equal(m.words[1], 3);
  assert_runs(&m, MODEL_MIX_BARRIER, 60, 10);
  assert_int_equal(m.words[1], 180);
}

/* ---- synchronised starts ---------------------------------------------------------------------------------------------- */

static void all_blocks_meet_at_barriers(void **state) {
  const uint32_t carriers[] = {1, 4};
  size_t i;
  for (i = 0; i < ELEMENTS(carriers); i++) {
    model m = model_start(*state, carriers[i]);
    assert_runs(&m, MODEL_SYNC_BARRIER, 1, 10, AIV);
    assert_int_equal(m.words[1], 1);
    assert_runs(&m, MODEL_SYNC_BARRIER, 2 * CLUSTERS, 10, AIV);
    assert_int_equal(m.words[1], 2 * CLUSTERS);
    assert_runs(&m, MODEL_SYNC_BARRIER, CLUSTERS, 10, AIC);
    assert_int_equal(m.words[1], CLUSTERS);
    assert_runs(&m, MODEL_SYNC_BARRIER, CLUSTERS, 5, MIX);
    assert_int_equal(m.words[1], 3 * CLUSTERS);
  }
}

static void cohorts_that_never_fit_are_refused(void **state) {
  model m = model_start(*state, 0);
  assert_fails(SIMPLER_UNSATISFIABLE, "task->block_count is 49", run(&m, SCALARS(MODEL_SYNC_BARRIER, 49, 1, AIV), &err));
  assert_fails(SIMPLER_UNSATISFIABLE, "this chip has 24", run(&m, SCALARS(MODEL_SYNC_BARRIER, 25, 1, AIC), &err));
  assert_fails(SIMPLER_UNSATISFIABLE, "clusters", run(&m, SCALARS(MODEL_SYNC_BARRIER, 25, 1, MIX), &err));
  assert_runs(&m, MODEL_SYNC_BARRIER, 24, 1, MIX);
}

static void a_cohort_is_not_starved_by_single_tasks(void **state) {
  model m = model_start(*state, 2);
  const uint64_t shapes[] = {AIV, AIC, MIX}, blocks[] = {48, 24, 24};
  size_t i;
  for (i = 0; i < ELEMENTS(shapes); i++) {
    assert_runs(&m, MODEL_STARVATION, 2000, blocks[i], shapes[i]);
    assert_int_equal(m.words[1], 2000);
    /* Only singles that had begun, or that use other cores, are done before it. All AIV singles wait when all AIV are reserved. */
    assert_in_range(m.words[2], 1, shapes[i] == AIC ? 2001 : 64);
  }
}

static void cohorts_of_all_shapes_run_side_by_side(void **state) {
  model m = model_start(*state, 3);
  uint64_t rounds = 30, expected = 0, i;
  for (i = 0; i < rounds; i++) expected += (1 + i * 7 % 24) * (i % 3 == 0 ? 3 : 1) + (1 + i * 5 % 40) * 2 + 3;
  assert_runs(&m, MODEL_COHORTS, rounds);
  assert_int_equal(m.words[1], expected);
}

/* ---- waits that can never end -------------------------------------------------------------------------------------------- */

static void wrong_calls_of_kernels_fail_their_task(void **state) {
  model m = model_start(*state, 0);
  static const struct {
    uint64_t which;
    const char *text;
  } cases[] = {
      {MODEL_MISUSE_POP_OWN, "simpler_kernel_pop: position is 0: that is the kernel's own"},
      {MODEL_MISUSE_POP_ABSENT, "simpler_kernel_pop: position is 2: the task has no kernel there"},
      {MODEL_MISUSE_POP_NOWHERE, "simpler_kernel_pop: position is 3: 0 (AIC), 1 (AIV0) and 2 (AIV1) exist"},
      {MODEL_MISUSE_POP_NULL, "simpler_kernel_pop: word is NULL"},
      {MODEL_MISUSE_POP_LEFT, "the FIFO is empty and the kernel on AIV0 has returned"},
      {MODEL_MISUSE_PUSH_LEFT, "the FIFO is full and the kernel on AIV0 has returned"},
      {MODEL_MISUSE_BARRIER_LEFT, "another kernel of the task has returned without a call of it"},
      {MODEL_MISUSE_BARRIER_SPMD, "a task of 2 blocks without SIMPLER_TASK_SYNC_START"},
      {MODEL_MISUSE_SIGNAL_NULL, "simpler_kernel_signal_set: signal is NULL"},
      {MODEL_MISUSE_SIGNAL_MISALIGNED, "simpler_kernel_signal_add: signal is not aligned to 8 bytes"},
      {MODEL_MISUSE_SIGNAL_COMPARE, "simpler_kernel_signal_wait: compare is 7; 1 to 6 exist"},
  };
  size_t i;
  assert_int_equal(ELEMENTS(cases), MODEL_MISUSE_COUNT);
  for (i = 0; i < ELEMENTS(cases); i++) {
    assert_fails(SIMPLER_KERNEL_FAILED, cases[i].text, run(&m, SCALARS(MODEL_MISUSE, cases[i].which), &err));
    assert_int_equal(m.words[0], 0);
  }
  assert_runs(&m, MODEL_FIFO, 3, 100);
}

static void kernels_that_wait_end_with_their_run(void **state) {
  model m = model_start(*state, 2);
  uint64_t how;
  for (how = 0; how < MODEL_WAITING_COUNT; how++) {
    simpler_error *error = NULL;
    assert_int_equal(run(&m, SCALARS(MODEL_FAIL_WAITING, how), &error), SIMPLER_KERNEL_FAILED);
    assert_int_equal(simpler_error_user_code(error), 42); /* the first cause, not those that waited */
    assert_message(error, "fails while others wait");
    simpler_error_free(error);
    assert_int_equal(m.words[0], 0);
    assert_int_equal(m.words[2], how == MODEL_WAITING_POP || how == MODEL_WAITING_PUSH ? 1 : 7);
  }
  assert_runs(&m, MODEL_SYNC_BARRIER, 48, 3, AIV);
}

/* ---- predicates ------------------------------------------------------------------------------------------------------------ */

static bool holds_int(int64_t a, uint64_t compare, int64_t b) {
  switch (compare) {
    case SIMPLER_COMPARE_EQ:
      return a == b;
    case SIMPLER_COMPARE_NE:
      return a != b;
    case SIMPLER_COMPARE_LT:
      return a < b;
    case SIMPLER_COMPARE_LE:
      return a <= b;
    case SIMPLER_COMPARE_GT:
      return a > b;
    default:
      return a >= b;
  }
}

static bool is_floating(uint64_t dtype) { return dtype >= SIMPLER_DTYPE_FLOAT16; }
static bool is_signed(uint64_t dtype) {
  return is_floating(dtype) ? dtype != SIMPLER_DTYPE_FLOAT8_E8M0
                            : dtype == SIMPLER_DTYPE_INT8 || dtype == SIMPLER_DTYPE_INT16 || dtype == SIMPLER_DTYPE_INT32 ||
                                  dtype == SIMPLER_DTYPE_INT64;
}

static uint64_t word_of(uint64_t dtype, int64_t number) {
  if (dtype == SIMPLER_DTYPE_FLOAT64) return simpler_scalar_from_f64((double)number);
  return is_floating(dtype) ? simpler_scalar_from_f32((float)number) : (uint64_t)number;
}

static void check_predicate(model *m, uint64_t dtype, uint64_t compare, uint64_t constant, uint64_t element, bool expected,
                            bool manual) {
  const uint64_t elements = dtype == SIMPLER_DTYPE_FLOAT4_E2M1 ? 6 : 5;
  assert_runs(m, MODEL_PREDICATE, dtype, compare, constant, element, manual, elements);
  assert_int_equal(m->words[1], expected);
  assert_int_equal(m->words[2], 1);                     /* its dependents go on */
  assert_int_equal(m->words[3], expected ? 1000u : 0u); /* the output of a task that was skipped reads as zero */
}

static void predicates_compare_by_dtype(void **state) {
  model m = model_start(*state, 0);
  uint64_t dtype, compare;
  size_t i;
  for (dtype = SIMPLER_DTYPE_BOOL; dtype <= SIMPLER_DTYPE_FLOAT4_E2M1; dtype++) {
    const int64_t pairs[][2] = {{1, 1}, {1, 2}, {2, 1}, {-2, 1}, {1, -2}};
    for (i = 0; i < ELEMENTS(pairs); i++) {
      int64_t element = pairs[i][0];
      const int64_t constant = pairs[i][1];
      if ((element < 0 || constant < 0) && !is_signed(dtype)) continue;
      for (compare = SIMPLER_COMPARE_EQ; compare <= SIMPLER_COMPARE_GE; compare++) {
        const int64_t stored = dtype == SIMPLER_DTYPE_BOOL ? element != 0 : element;
        check_predicate(&m, dtype, compare, word_of(dtype, constant), word_of(dtype, element),
                        holds_int(stored, compare, constant), (i + compare) % 2 != 0);
      }
    }
  }
}

static void predicates_know_nan_and_large_unsigned_numbers(void **state) {
  model m = model_start(*state, 0);
  uint64_t compare;
  for (compare = SIMPLER_COMPARE_EQ; compare <= SIMPLER_COMPARE_GE; compare++) {
    check_predicate(&m, SIMPLER_DTYPE_FLOAT32, compare, simpler_scalar_from_f32(0), simpler_scalar_from_f32(NAN),
                    compare == SIMPLER_COMPARE_NE, false);
    check_predicate(&m, SIMPLER_DTYPE_FLOAT64, compare, simpler_scalar_from_f64(NAN), simpler_scalar_from_f64(NAN),
                    compare == SIMPLER_COMPARE_NE, false);
    check_predicate(&m, SIMPLER_DTYPE_UINT64, compare, 1, UINT64_MAX,
                    compare == SIMPLER_COMPARE_NE || compare >= SIMPLER_COMPARE_GT, false);
  }
}

static void a_predicate_waits_for_the_writer_of_its_element(void **state) {
  model m = model_start(*state, 2);
  int i;
  for (i = 0; i < 20; i++) {
    assert_runs(&m, MODEL_PREDICATE_WAITS, (uint64_t)i % 2);
    assert_int_equal(m.words[1], 1);
  }
}

static void wrong_predicates_are_refused(void **state) {
  model m = model_start(*state, 0);
  static const char *const texts[] = {
      "task->predicate->tensor is NULL",
      "task->predicate->tensor: ",
      "task->predicate->compare is 7; 1 to 6 exist",
      "task->predicate->compare is 0; 1 to 6 exist",
      "task->predicate: index[0] is 64, the tensor has 64 elements in that dimension",
      "task->predicate->reserved is 1, must be 0",
  };
  uint64_t i;
  for (i = 0; i < ELEMENTS(texts); i++)
    assert_fails(SIMPLER_INVALID_ARGUMENT, texts[i], run(&m, SCALARS(MODEL_PREDICATE_BAD, i), &err));
}

/* ---- scalars of tensors ------------------------------------------------------------------------------------------------- */

static void scalars_go_and_come_by_dtype(void **state) {
  model m = model_start(*state, 0);
  static const struct {
    uint64_t dtype;
    double number, comes_back; /* floating-point dtypes */
  } floats[] = {
      {SIMPLER_DTYPE_FLOAT64, 0.1, 0.1},
      {SIMPLER_DTYPE_FLOAT32, 0.5, 0.5},
      {SIMPLER_DTYPE_FLOAT16, 65504, 65504}, /* the largest */
      {SIMPLER_DTYPE_FLOAT16, 65519.996, 65504},
      {SIMPLER_DTYPE_FLOAT16, 65520, INFINITY}, /* one past it */
      {SIMPLER_DTYPE_FLOAT16, 2049, 2048},      /* ties to even */
      {SIMPLER_DTYPE_FLOAT16, 2051, 2052},
      {SIMPLER_DTYPE_FLOAT16, 5.9604644775390625e-8, 5.9604644775390625e-8}, /* the smallest subnormal */
      {SIMPLER_DTYPE_FLOAT16, 2.9802322387695312e-8, 0},
      {SIMPLER_DTYPE_BFLOAT16, 257, 256},
      {SIMPLER_DTYPE_BFLOAT16, 3.3895313892515355e38, 3.3895313892515355e38},
      {SIMPLER_DTYPE_BFLOAT16, 3.4e38, INFINITY},
      {SIMPLER_DTYPE_FLOAT8_E4M3FN, 448, 448},
      {SIMPLER_DTYPE_FLOAT8_E4M3FN, 464, 448},
      {SIMPLER_DTYPE_FLOAT8_E4M3FN, 465, NAN},
      {SIMPLER_DTYPE_FLOAT8_E4M3FN, -0.001953125, -0.001953125},
      {SIMPLER_DTYPE_FLOAT8_E8M0, 1024, 1024},
      {SIMPLER_DTYPE_FLOAT8_E8M0, -1, NAN},
      {SIMPLER_DTYPE_FLOAT4_E2M1, -1.5, -1.5},
      {SIMPLER_DTYPE_FLOAT4_E2M1, 6, 6},
      {SIMPLER_DTYPE_FLOAT4_E2M1, 100, 6}, /* there is neither infinity nor NaN */
      {SIMPLER_DTYPE_FLOAT4_E2M1, 2.5, 2},
  };
  static const struct {
    uint64_t dtype, word, comes_back;
  } integers[] = {
      {SIMPLER_DTYPE_BOOL, 17, 1},
      {SIMPLER_DTYPE_INT8, (uint64_t)INT64_C(-5), (uint64_t)INT64_C(-5)},
      {SIMPLER_DTYPE_INT8, 0x1ff, UINT64_MAX}, /* cut */
      {SIMPLER_DTYPE_UINT8, 0x1ff, 0xff},
      {SIMPLER_DTYPE_INT16, 0x8000, (uint64_t)INT64_C(-32768)},
      {SIMPLER_DTYPE_UINT16, 0x18000, 0x8000},
      {SIMPLER_DTYPE_INT32, 0x80000000, (uint64_t)INT64_C(-2147483648)},
      {SIMPLER_DTYPE_UINT32, 0x180000000, 0x80000000},
      {SIMPLER_DTYPE_INT64, (uint64_t)INT64_MIN, (uint64_t)INT64_MIN},
      {SIMPLER_DTYPE_UINT64, UINT64_MAX, UINT64_MAX},
  };
  size_t i, k;
  for (i = 0; i < ELEMENTS(integers); i++) {
    assert_runs(&m, MODEL_SCALAR, integers[i].dtype, integers[i].word);
    assert_int_equal(m.words[1], integers[i].comes_back);
    assert_int_equal(m.words[2], integers[i].comes_back);
    assert_int_equal(m.words[3], 0);
  }
  for (i = 0; i < ELEMENTS(floats); i++) {
    const bool is_double = floats[i].dtype == SIMPLER_DTYPE_FLOAT64;
    const double wanted = floats[i].comes_back;
    assert_runs(&m, MODEL_SCALAR, floats[i].dtype,
                is_double ? simpler_scalar_from_f64(floats[i].number) : simpler_scalar_from_f32((float)floats[i].number));
    for (k = 1; k <= 2; k++) {
      const double got = is_double ? simpler_scalar_to_f64(m.words[k]) : simpler_scalar_to_f32(m.words[k]);
      if (isnan(wanted) ? !isnan(got) : got != (is_double ? wanted : (double)(float)wanted))
        fail_msg("dtype %u: %g comes back as %g, not %g", (unsigned)floats[i].dtype, floats[i].number, got, wanted);
    }
    if (floats[i].dtype != SIMPLER_DTYPE_FLOAT8_E8M0) assert_int_equal(m.words[3], 0); /* the neighbour is as it was */
  }
}

static void scalars_wait_for_writers_and_readers(void **state) {
  model m = model_start(*state, 2);
  int i;
  for (i = 0; i < 10; i++) {
    assert_runs(&m, MODEL_SCALAR_WAITS, 100);
    assert_int_equal(m.words[1], 100);
    assert_int_equal(m.words[2], 100 * 100);
  }
}

static void a_scalar_of_a_failed_writer_fails_the_call(void **state) {
  model m = model_start(*state, 0);
  assert_fails(SIMPLER_KERNEL_FAILED, "as asked for", run(&m, SCALARS(MODEL_SCALAR_FAILED), &err));
  assert_int_equal(m.words[1], 0);
  assert_int_equal(m.words[2], 1);
}

static void wrong_scalars_are_refused(void **state) {
  model m = model_start(*state, 0);
  static const char *const texts[] = {
      "simpler_orch_read_scalar: tensor is NULL", "simpler_orch_read_scalar: index is NULL",
      "simpler_orch_read_scalar: word is NULL",   "simpler_orch_read_scalar: index[0] is 64",
      "simpler_orch_read_scalar: tensor: ",       "simpler_orch_write_scalar: tensor is NULL",
      "simpler_orch_write_scalar: index is NULL", "simpler_orch_write_scalar: index[0] is 64",
      "simpler_orch_write_scalar: tensor: ",      "simpler_orch_alloc_filled: tensor is NULL",
      "simpler_orch_alloc_filled: tensor: ",
  };
  uint64_t i;
  for (i = 0; i < ELEMENTS(texts); i++)
    assert_fails(SIMPLER_INVALID_ARGUMENT, texts[i], run(&m, SCALARS(MODEL_SCALAR_BAD, i), &err));
}

static void memory_is_allocated_filled(void **state) {
  model m = model_start(*state, 0);
  assert_runs(&m, MODEL_FILLED, 1000);
  assert_int_equal(m.words[1], 1000);
  assert_runs(&m, MODEL_FILLED, 0);
}

/* ---- signals ---------------------------------------------------------------------------------------------------------------- */

/* With one carrier all waiters stand before those that they wait for. */
static void a_kernel_that_waits_for_a_signal_lets_others_run(void **state) {
  model m = model_start(*state, 1);
  assert_runs(&m, MODEL_SIGNAL, 1);
  assert_int_equal(m.words[1], 1);
  assert_runs(&m, MODEL_SIGNAL, 40); /* fewer than AIV cores */
  assert_int_equal(m.words[1], 40);
}

static void signals_are_compared(void **state) {
  model m = model_start(*state, 1);
  static const uint64_t comparisons[][2] = {
      {SIMPLER_COMPARE_EQ, 7}, {SIMPLER_COMPARE_NE, 0}, {SIMPLER_COMPARE_GT, 6},         {SIMPLER_COMPARE_GE, 7},
      {SIMPLER_COMPARE_LT, 8}, {SIMPLER_COMPARE_LE, 7}, {SIMPLER_COMPARE_LT, UINT64_MAX}};
  size_t i;
  for (i = 0; i < ELEMENTS(comparisons); i++) {
    assert_runs(&m, MODEL_SIGNAL_COMPARE, comparisons[i][0], comparisons[i][1]);
    assert_int_equal(m.words[1], 1);
  }
}

static void signals_reach_other_chips(void **state) {
  simpler_worker *worker = api_start(*state, 2);
  simpler_callable *callable = api_register(worker, "model");
  const uint64_t wait[] = {MODEL_SIGNAL_WAIT, 5}, add[] = {MODEL_SIGNAL_ADD, 1};
  simpler_buffer *buffer;
  uint64_t *words;
  int i;
  assert_ok(simpler_buffer_create(worker, WORDS * 8, &buffer, &err));
  words = simpler_buffer_data(buffer);
  for (i = 0; i < 50; i++) {
    simpler_run *waiter;
    int k;
    words[1] = words[2] = 0;
    waiter = api_submit_buffer(worker, callable, 0, buffer, wait, 2);
    for (k = 0; k < 5; k++) api_finish(api_submit_buffer(worker, callable, 1, buffer, add, 2));
    api_finish(waiter);
    assert_int_equal(words[2], 1);
  }
  assert_int_equal(words[0], 0);
}

/* ---- deferred completion ------------------------------------------------------------------------------------------------------ */

static void a_task_completes_when_its_conditions_hold(void **state) {
  const uint32_t carriers[] = {1, 3};
  size_t c;
  for (c = 0; c < ELEMENTS(carriers); c++) {
    model m = model_start(*state, carriers[c]);
    const uint64_t conditions[] = {1, 64, 1000};
    uint64_t i, how;
    for (i = 0; i < ELEMENTS(conditions); i++) {
      for (how = 0; how < 2; how++) {
        assert_runs(&m, MODEL_COMPLETE_WHEN, conditions[i], how);
        assert_int_equal(m.words[1], 1);
      }
    }
    assert_runs(&m, MODEL_COMPLETE_BLOCKS, 100);
    assert_int_equal(m.words[1], 1);
  }
}

static void a_deferred_completion_ends_with_its_run(void **state) {
  model m = model_start(*state, 0);
  int i;
  for (i = 0; i < 5; i++) {
    assert_fails(SIMPLER_KERNEL_FAILED, "as asked for", run(&m, SCALARS(MODEL_COMPLETE_NEVER), &err));
    assert_runs(&m, MODEL_COMPLETE_WHEN, 2, 0);
  }
}

/* ---- views -------------------------------------------------------------------------------------------------------------------- */

static void views_are_made_and_refused(void **state) {
  model m = model_start(*state, 0);
  assert_runs(&m, MODEL_VIEWS);
  assert_int_equal(m.words[1], 13);
}

/* ---- seeded mode ---------------------------------------------------------------------------------------------------------------- */

static model model_start_seeded(void *state, uint64_t seed) {
  simpler_worker_options options = api_options(state, 1);
  options.seed = seed;
  return model_start_with(state, &options);
}

static void a_seed_says_the_order(void **state) {
  model m = model_start_seeded(*state, 1), other = model_start_seeded(*state, 1);
  uint64_t first[WORDS];
  uint64_t seed, orders = 0;
  assert_ok(run_seeded(&m, 1, SCALARS(MODEL_ORDER, 20), &err));
  memcpy(first, m.words, sizeof first);
  for (seed = 1; seed <= 50; seed++) {
    uint64_t again[WORDS];
    assert_ok(run_seeded(&m, seed, SCALARS(MODEL_ORDER, 20), &err));
    memcpy(again, m.words, sizeof again);
    if (memcmp(first, again, sizeof again) != 0) orders++;
    assert_ok(run_seeded(&other, seed, SCALARS(MODEL_ORDER, 20), &err));
    assert_memory_equal(again, other.words, sizeof again);
  }
  assert_int_equal(orders, 49);
}

/* Without seeds of runs, each run of a worker has its own, and the same in each life of the worker. */
static void runs_of_a_seeded_worker_have_seeds(void **state) {
  uint64_t orders[2][5][WORDS];
  int life, i;
  for (life = 0; life < 2; life++) {
    model m = model_start_seeded(*state, 7);
    for (i = 0; i < 5; i++) {
      assert_ok(run(&m, SCALARS(MODEL_ORDER, 20), &err));
      memcpy(orders[life][i], m.words, sizeof orders[0][0]);
      if (i > 0) assert_memory_not_equal(orders[life][i], orders[life][0], sizeof orders[0][0]);
    }
  }
  assert_memory_equal(orders[0], orders[1], sizeof orders[0]);
}

static void everything_runs_in_seeded_mode(void **state) {
  model m = model_start_seeded(*state, 99);
  uint64_t i;
  for (i = 0; i < 10; i++) {
    assert_runs(&m, MODEL_FIFO, 30, 100);
    assert_int_equal(m.words[1], 30 * 3 * 100 * 101 / 2);
    assert_runs(&m, MODEL_SYNC_BARRIER, 48, 3, AIV);
    assert_int_equal(m.words[1], 48);
    assert_runs(&m, MODEL_COHORTS, 3);
    assert_runs(&m, MODEL_SCALAR_WAITS, 20);
    assert_int_equal(m.words[1], 20);
    assert_int_equal(m.words[2], 400);
    check_predicate(&m, SIMPLER_DTYPE_INT32, SIMPLER_COMPARE_EQ, 1, i % 2, i % 2 == 1, false);
    assert_fails(SIMPLER_KERNEL_FAILED, "has returned", run(&m, SCALARS(MODEL_MISUSE, MODEL_MISUSE_POP_LEFT), &err));
  }
}

static void seeds_where_there_can_be_none_are_refused(void **state) {
  model m = model_start(*state, 0);
  simpler_worker_options options = SIMPLER_WORKER_OPTIONS_INIT;
  simpler_worker *worker = (simpler_worker *)&options;
  options.seed = 5;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "option seed is 5", simpler_worker_create(&options, &worker, &err));
  assert_null(worker);
  assert_fails(SIMPLER_INVALID_ARGUMENT, "run option seed is 3", run_seeded(&m, 3, SCALARS(MODEL_VIEWS), &err));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      API_TEST_BOTH(parts_of_a_mix_task_pass_words),
      API_TEST_BOTH(parts_of_a_mix_task_sit_in_one_cluster),
      API_TEST_BOTH(parts_of_a_mix_task_meet_at_barriers),
      API_TEST_BOTH(all_blocks_meet_at_barriers),
      API_TEST_BOTH(cohorts_that_never_fit_are_refused),
      API_TEST_BOTH(a_cohort_is_not_starved_by_single_tasks),
      API_TEST_BOTH(cohorts_of_all_shapes_run_side_by_side),
      API_TEST_BOTH(wrong_calls_of_kernels_fail_their_task),
      API_TEST_BOTH(kernels_that_wait_end_with_their_run),
      API_TEST_BOTH(predicates_compare_by_dtype),
      API_TEST_BOTH(predicates_know_nan_and_large_unsigned_numbers),
      API_TEST_BOTH(a_predicate_waits_for_the_writer_of_its_element),
      API_TEST_BOTH(wrong_predicates_are_refused),
      API_TEST_BOTH(scalars_go_and_come_by_dtype),
      API_TEST_BOTH(scalars_wait_for_writers_and_readers),
      API_TEST_BOTH(a_scalar_of_a_failed_writer_fails_the_call),
      API_TEST_BOTH(wrong_scalars_are_refused),
      API_TEST_BOTH(memory_is_allocated_filled),
      API_TEST_BOTH(a_kernel_that_waits_for_a_signal_lets_others_run),
      API_TEST_BOTH(signals_are_compared),
      API_TEST_BOTH(signals_reach_other_chips),
      API_TEST_BOTH(a_task_completes_when_its_conditions_hold),
      API_TEST_BOTH(a_deferred_completion_ends_with_its_run),
      API_TEST_BOTH(views_are_made_and_refused),
      API_TEST_IN_PROCESS(a_seed_says_the_order),
      API_TEST_IN_PROCESS(runs_of_a_seeded_worker_have_seeds),
      API_TEST_IN_PROCESS(everything_runs_in_seeded_mode),
      API_TEST_BOTH(seeds_where_there_can_be_none_are_refused),
  };
  return api_run_tests(tests);
}
