#include "vector_example.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <simpler.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernel_ids.h"

/* What a callable computes, and the graph that it makes for it. */
typedef struct example_formula {
  const char *name;
  const char *text;
  uint64_t tasks;
  uint64_t edges;
  /* Rounds after each operation as the kernels do, even where the compiler could fuse two of them. */
  float (*value)(float a, float b);
} example_formula;

static float example_value(float a, float b) {
  volatile float c = a + b, d = c + 1.0f, e = c + 2.0f, g = d * e, f = g + c;
  return f;
}
static float square_value(float a, float b) {
  volatile float c = a + b, f = c * c;
  return f;
}
static float product_value(float a, float b) { return a * b; }

static const example_formula kExample = {"vector_example", "(a + b + 1)(a + b + 2) + (a + b)", 5, 6, example_value};
static const example_formula kSquare = {"vector_square", "(a + b)^2", 2, 1, square_value};
static const example_formula kProduct = {"vector_product", "a * b", 1, 0, product_value};

typedef struct example {
  const example_settings *settings;
  const npy_array *a, *b;
  simpler_worker *worker;
  float **outputs; /* two for each chip */
} example;

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Reports a failed call and frees its error; 1 if it did not fail. */
static int succeeded(simpler_status status, simpler_error **error, const char *what) {
  if (status == SIMPLER_OK) return 1;
  fprintf(stderr, "vector_example: %s: %s: %s\n", what, simpler_status_name(status), simpler_error_message(*error));
  simpler_error_free(*error);
  *error = NULL;
  return 0;
}

/* ---- the worker -------------------------------------------------------------------------------------------------------- */

static uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

static int start_worker(example *e) {
  simpler_worker_options options = SIMPLER_WORKER_OPTIONS_INIT;
  simpler_worker_info info = SIMPLER_WORKER_INFO_INIT;
  const uint64_t bytes = e->a->elements * sizeof(float);
  const double start = now_us();
  simpler_error *error = NULL;
  options.platform = e->settings->platform;
  options.chips = e->settings->chips;
  options.isolation = e->settings->in_process ? SIMPLER_ISOLATION_IN_PROCESS : SIMPLER_ISOLATION_PROCESS;
  /* Both are address space; the defaults, 256 MiB and 4 GiB, do for all but very large inputs. Intermediates: four tensors at
   * most. Staged tensors: three for each run in flight, two runs on each chip. */
  options.heap_bytes = max_u64((uint64_t)256 << 20, 4 * bytes + ((uint64_t)1 << 20)) & ~(uint64_t)4095;
  options.gm_bytes = max_u64((uint64_t)4 << 30, (uint64_t)e->settings->chips * 2 * 3 * (bytes + 4096)) & ~(uint64_t)4095;
  if (!succeeded(simpler_worker_create(&options, &e->worker, &error), &error, "starting the worker")) return 0;
  if (!succeeded(simpler_worker_get_info(e->worker, &info, &error), &error, "asking the worker")) return 0;
  printf("libsimpler %s: %u chip%s of %s (%u clusters, %u threads each), %s, started in %.1f ms\n", simpler_version_string(),
         info.chips, info.chips == 1 ? "" : "s", options.platform != NULL ? options.platform : "a2a3sim",
         info.clusters_per_chip, info.carriers_per_chip,
         e->settings->in_process ? "in this process" : "each a process of its own", (now_us() - start) / 1000.0);
  return 1;
}

/* Registers what `desc` describes on all chips, and tells which slot it got. */
static simpler_callable *register_callable(example *e, simpler_callable_desc *desc, const char *remark) {
  const simpler_image image = {e->settings->callable, NULL, 0};
  simpler_callable_info info = SIMPLER_CALLABLE_INFO_INIT;
  simpler_callable *callable;
  simpler_error *error = NULL;
  const double start = now_us();
  simpler_callable_desc with_image = *desc;
  with_image.images = &image;
  with_image.image_count = 1;
  if (!succeeded(simpler_worker_register(e->worker, &with_image, &callable, &error), &error, "registering")) return NULL;
  if (!succeeded(simpler_callable_get_info(callable, &info, &error), &error, "asking the callable")) return NULL;
  printf("\nregistered %s%s: cid %u, generation %u, %u kernel%s, %.2f ms\n", desc->name, remark, info.cid, info.generation,
         info.kernel_count, info.kernel_count == 1 ? "" : "s", (now_us() - start) / 1000.0);
  return callable;
}

/* The shared object describes itself: nothing but its path is needed. */
static simpler_callable *register_example(example *e, const char *remark) {
  simpler_callable_desc desc = SIMPLER_CALLABLE_DESC_INIT;
  desc.name = kExample.name;
  return register_callable(e, &desc, remark);
}

/* The description says which orchestration and which kernels to take from the shared object. */
static simpler_callable *register_square(example *e, const char *remark) {
  static const simpler_kernel_desc kernels[] = {
      {KERNEL_ADD, SIMPLER_CORE_AIV, 0, 0, "vector_add"},
      {KERNEL_MUL, SIMPLER_CORE_AIV, 0, 0, "vector_mul"},
  };
  simpler_callable_desc desc = SIMPLER_CALLABLE_DESC_INIT;
  desc.name = kSquare.name;
  desc.orchestration_symbol = "vector_square";
  desc.kernels = kernels;
  desc.kernel_count = sizeof kernels / sizeof kernels[0];
  return register_callable(e, &desc, remark);
}

/* One kernel and no orchestration: a run is a single task. The signature lets the arguments be checked at submit. */
static simpler_callable *register_product(example *e, const char *remark) {
  static const simpler_kernel_desc kernel = {KERNEL_MUL, SIMPLER_CORE_AIV, 0, 0, "vector_mul"};
  static const simpler_parameter signature[] = {SIMPLER_PARAMETER_IN, SIMPLER_PARAMETER_IN, SIMPLER_PARAMETER_OUT};
  simpler_callable_desc desc = SIMPLER_CALLABLE_DESC_INIT;
  desc.name = kProduct.name;
  desc.kernels = &kernel;
  desc.kernel_count = 1;
  desc.signature = signature;
  desc.signature_count = sizeof signature / sizeof signature[0];
  return register_callable(e, &desc, remark);
}

static int unregister(example *e, simpler_callable *callable) {
  simpler_error *error = NULL;
  return succeeded(simpler_worker_unregister(e->worker, callable, &error), &error, "unregistering");
}

/* ---- runs --------------------------------------------------------------------------------------------------------------- */

/* Starts f = formula(a, b) on a chip, with host memory by pointer: it is copied to the chip and back. */
static simpler_run *submit(example *e, simpler_callable *callable, uint32_t chip, float *f) {
  const uint64_t *shape = e->a->shape;
  const uint32_t rank = e->a->rank;
  simpler_tensor_arg tensors[3];
  simpler_task task = SIMPLER_TASK_INIT;
  simpler_run *run;
  simpler_error *error = NULL;
  tensors[0] = simpler_tensor_arg_make(e->a->data, SIMPLER_TAG_INPUT, SIMPLER_DTYPE_FLOAT32, rank, shape);
  tensors[1] = simpler_tensor_arg_make(e->b->data, SIMPLER_TAG_INPUT, SIMPLER_DTYPE_FLOAT32, rank, shape);
  tensors[2] = simpler_tensor_arg_make(f, SIMPLER_TAG_OUTPUT_EXISTING, SIMPLER_DTYPE_FLOAT32, rank, shape);
  task.callable = callable;
  task.chip = (int32_t)chip;
  task.tensors = tensors;
  task.tensor_count = 3;
  if (!succeeded(simpler_worker_submit(e->worker, &task, NULL, &run, &error), &error, "submitting")) return NULL;
  return run;
}

static int is_right(const example *e, const example_formula *formula, const float *f) {
  uint64_t i;
  for (i = 0; i < e->a->elements; i++) {
    const float expected = formula->value(e->a->data[i], e->b->data[i]);
    if (f[i] != expected && !(isnan(f[i]) && isnan(expected))) {
      fprintf(stderr, "vector_example: element %" PRIu64 " of %s is %.9g instead of %.9g\n", i, formula->text, (double)f[i],
              (double)expected);
      return 0;
    }
  }
  return 1;
}

static int has_right_graph(const example *e, const example_formula *formula, const simpler_run_stats *stats) {
  /* Tensors without elements touch nothing, so nothing depends on anything. */
  const uint64_t edges = e->a->elements == 0 ? stats->dependencies : formula->edges;
  if (stats->tasks_done == formula->tasks && stats->dependencies == edges) return 1;
  fprintf(stderr,
          "vector_example: %s ran %" PRIu64 " tasks with %" PRIu64 " edges instead of %" PRIu64 " with %" PRIu64 "\n",
          formula->name, stats->tasks_done, stats->dependencies, formula->tasks, edges);
  return 0;
}

/* Waits for a run, checks its graph and its output, and releases it. NULL, which is a submit that failed, is wrong. */
static int finish(example *e, const example_formula *formula, simpler_run *run, const float *f) {
  simpler_run_stats stats = SIMPLER_RUN_STATS_INIT;
  simpler_error *error = NULL;
  int right;
  if (run == NULL) return 0;
  right = succeeded(simpler_run_wait(run, SIMPLER_FOREVER, &error), &error, "running") &&
          succeeded(simpler_run_get_stats(run, &stats, &error), &error, "asking the run") &&
          has_right_graph(e, formula, &stats) && is_right(e, formula, f);
  return succeeded(simpler_run_release(run, &error), &error, "releasing the run") && right;
}

/* Makes sure that a run that writes nothing is noticed. */
static void spoil(const example *e, float *f) { memset(f, 0xa5, (size_t)e->a->elements * sizeof(float)); }

/* Runs on the first `chips` chips at once: submits to each, then waits for each. */
static int run_on_chips(example *e, const example_formula *formula, simpler_callable *callable, uint32_t chips) {
  simpler_run *runs[64];
  double start, end;
  uint32_t chip;
  int right = 1;
  for (chip = 0; chip < chips; chip++) spoil(e, e->outputs[chip]);
  start = now_us();
  for (chip = 0; chip < chips; chip++) runs[chip] = submit(e, callable, chip, e->outputs[chip]);
  for (chip = 0; chip < chips; chip++) {
    if (runs[chip] != NULL) simpler_run_wait(runs[chip], SIMPLER_FOREVER, NULL);
  }
  end = now_us();
  for (chip = 0; chip < chips; chip++) right &= finish(e, formula, runs[chip], e->outputs[chip]);
  printf("  %s on %u chip%s%s: %" PRIu64 " task%s, %" PRIu64 " edge%s each, %.0f us, %s\n", formula->text, chips,
         chips == 1 ? "" : "s", chips == 1 ? "" : " at once", formula->tasks, formula->tasks == 1 ? "" : "s", formula->edges,
         formula->edges == 1 ? "" : "s", end - start, right ? "right" : "WRONG");
  return right;
}

static int run_on_one_and_all(example *e, const example_formula *formula, simpler_callable *callable) {
  const uint32_t chips = e->settings->chips;
  return run_on_chips(e, formula, callable, 1) && (chips == 1 || run_on_chips(e, formula, callable, chips));
}

/* ---- registering while runs are in flight ------------------------------------------------------------------------------- */

/* Runs that a second thread keeps going on all chips, two in flight on each. */
typedef struct traffic {
  example *e;
  simpler_callable *callable;
  sem_t flowing; /* posted when all chips have had a run, or at the end */
  atomic_int stop;
  atomic_uint finished;
  int right;
} traffic;

static void *keep_chips_busy(void *argument) {
  traffic *t = argument;
  const uint32_t chips = t->e->settings->chips;
  simpler_run *runs[2 * 64] = {NULL};
  uint32_t round, i;
  t->right = 1;
  /* Slot i belongs to chip i % chips: its run is waited for when the slot comes round again. */
  for (round = 0; t->right && !(round > 1 && atomic_load(&t->stop)); round++) {
    for (i = 0; i < 2 * chips; i++) {
      if (round > 0) t->right &= finish(t->e, &kExample, runs[i], t->e->outputs[i]);
      if (round > 0) atomic_fetch_add(&t->finished, 1);
      spoil(t->e, t->e->outputs[i]);
      runs[i] = submit(t->e, t->callable, i % chips, t->e->outputs[i]);
    }
    if (round == 1) sem_post(&t->flowing);
  }
  for (i = 0; i < 2 * chips; i++) t->right &= finish(t->e, &kExample, runs[i], t->e->outputs[i]);
  atomic_fetch_add(&t->finished, 2 * chips);
  sem_post(&t->flowing);
  return NULL;
}

/* Registers vector_square while runs of `callable` are in flight on every chip. */
static simpler_callable *register_during_runs(example *e, simpler_callable *callable) {
  traffic t = {.e = e, .callable = callable};
  pthread_t thread;
  simpler_callable *square;
  unsigned before, after;
  sem_init(&t.flowing, 0, 0);
  if (pthread_create(&thread, NULL, keep_chips_busy, &t) != 0) {
    fprintf(stderr, "vector_example: no thread can be started\n");
    sem_destroy(&t.flowing);
    return NULL;
  }
  while (sem_wait(&t.flowing) != 0) continue; /* interrupted by a signal */
  before = atomic_load(&t.finished);
  square = register_square(e, " while runs are in flight on all chips");
  after = atomic_load(&t.finished);
  atomic_store(&t.stop, 1);
  pthread_join(thread, NULL);
  sem_destroy(&t.flowing);
  printf("  %u runs of %s ended meanwhile, %u in all: %s\n", after - before, kExample.name, atomic_load(&t.finished),
         t.right ? "right" : "WRONG");
  return t.right ? square : NULL;
}

/* ---- one run after the other -------------------------------------------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Median time of one run after the other on chip 0. */
static int measure(example *e, simpler_callable *callable) {
  const uint32_t repeat = e->settings->repeat;
  double *times = malloc(repeat * sizeof *times);
  uint32_t i;
  int right = 1;
  if (times == NULL) return 0;
  for (i = 0; i < repeat && right; i++) {
    const double start = now_us();
    simpler_run *run = submit(e, callable, 0, e->outputs[0]);
    if (run != NULL) simpler_run_wait(run, SIMPLER_FOREVER, NULL);
    times[i] = now_us() - start;
    right = finish(e, &kExample, run, e->outputs[0]);
  }
  if (right) {
    qsort(times, repeat, sizeof *times, compare_doubles);
    printf("  %u runs one after the other on one chip: median %.1f us, fastest %.1f us, slowest %.1f us\n", repeat,
           times[repeat / 2], times[0], times[repeat - 1]);
  }
  free(times);
  return right;
}

/* ---- the whole -------------------------------------------------------------------------------------------------------- */

static int has_slot(simpler_callable *callable, const simpler_callable_info *before) {
  simpler_callable_info info = SIMPLER_CALLABLE_INFO_INIT;
  if (simpler_callable_get_info(callable, &info, NULL) != SIMPLER_OK) return 0;
  if (info.cid == before->cid && info.generation != before->generation) {
    printf("  cid %u again: generation %u has become %u\n", info.cid, before->generation, info.generation);
    return 1;
  }
  fprintf(stderr, "vector_example: cid %u, generation %u does not follow cid %u, generation %u\n", info.cid, info.generation,
          before->cid, before->generation);
  return 0;
}

static int run_all(example *e) {
  simpler_callable_info first = SIMPLER_CALLABLE_INFO_INIT;
  simpler_callable *callable, *square, *product;
  simpler_error *error = NULL;

  if ((callable = register_example(e, " before the first run")) == NULL) return 0;
  if (!succeeded(simpler_callable_get_info(callable, &first, &error), &error, "asking the callable")) return 0;
  if (!run_on_one_and_all(e, &kExample, callable)) return 0;

  if ((square = register_during_runs(e, callable)) == NULL) return 0;
  if (!run_on_one_and_all(e, &kSquare, square)) return 0;

  if (!unregister(e, callable)) return 0;
  if ((product = register_product(e, ", vector_example having been unregistered")) == NULL) return 0;
  if (!has_slot(product, &first) || !run_on_one_and_all(e, &kProduct, product)) return 0;

  if ((callable = register_example(e, " again")) == NULL) return 0;
  if (!run_on_one_and_all(e, &kExample, callable) || !measure(e, callable)) return 0;
  return unregister(e, callable) && unregister(e, product) && unregister(e, square);
}

static int make_outputs(example *e) {
  const size_t bytes = (size_t)e->a->elements * sizeof(float);
  const uint32_t count = 2 * e->settings->chips;
  uint32_t i;
  e->outputs = calloc(count, sizeof *e->outputs);
  if (e->outputs == NULL) return 0;
  for (i = 0; i < count; i++) {
    e->outputs[i] = malloc(bytes == 0 ? 1 : bytes);
    if (e->outputs[i] == NULL) return 0;
  }
  return 1;
}

int example_run(const example_settings *settings, const npy_array *a, const npy_array *b, npy_array *f) {
  example e = {settings, a, b, NULL, NULL};
  simpler_error *error = NULL;
  uint32_t i;
  int right = 0;
  if (make_outputs(&e)) {
    right = start_worker(&e) && run_all(&e);
    right = succeeded(simpler_worker_destroy(e.worker, &error), &error, "closing the worker") && right;
    printf("\n%s\n", right ? "all results are right" : "FAILED");
  } else {
    fprintf(stderr, "vector_example: out of memory\n");
  }
  *f = *a;
  f->data = NULL;
  if (right) { /* the last run's output, which has been checked */
    f->data = e.outputs[0];
    e.outputs[0] = NULL;
  }
  for (i = 0; e.outputs != NULL && i < 2 * settings->chips; i++) free(e.outputs[i]);
  free(e.outputs);
  return right;
}
