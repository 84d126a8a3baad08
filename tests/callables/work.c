/* Kernels and orchestrations for tests through simpler.h; work.h says what each does. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* kill */
#endif
#include "work.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simpler/device.h"

#define UNUSED __attribute__((unused))

static uint64_t *words(const simpler_args *args, uint32_t tensor) { return args->tensors[tensor].data; }

/* ---- kernels -------------------------------------------------------------------------------------------------------- */

#define DECLARE(id, name) SIMPLER_EXPORT void name(const simpler_kernel_context *context, const simpler_args *args);
WORK_KERNELS(DECLARE)
#undef DECLARE

enum {
#define NUMBER(id, name) kernel_##name = (int)(id),
  WORK_KERNELS(NUMBER)
#undef NUMBER
};

void nothing(const simpler_kernel_context *context UNUSED, const simpler_args *args UNUSED) {}

void fill(const simpler_kernel_context *context UNUSED, const simpler_args *args) {
  const uint64_t n = simpler_tensor_elements(&args->tensors[0]);
  uint64_t i;
  for (i = 0; i < n; i++) words(args, 0)[i] = args->scalars[0];
}

/* Element number i of a view, in row-major order of its shape. */
static uint64_t *element_of(const simpler_tensor *t, uint64_t i) {
  uint64_t offset = 0;
  uint32_t d;
  for (d = t->rank; d > 0; d--) {
    offset += i % t->shape[d - 1] * t->strides[d - 1];
    i /= t->shape[d - 1];
  }
  return (uint64_t *)t->data + offset;
}

void copy(const simpler_kernel_context *context, const simpler_args *args) {
  const uint64_t n = simpler_tensor_elements(&args->tensors[1]);
  uint64_t i;
  if (simpler_tensor_elements(&args->tensors[0]) != n) {
    simpler_kernel_fail(context, 1, "copy: sizes differ");
    return;
  }
  for (i = 0; i < n; i++) *element_of(&args->tensors[1], i) = *element_of(&args->tensors[0], i);
}

void add(const simpler_kernel_context *context UNUSED, const simpler_args *args) {
  const uint64_t n = simpler_tensor_elements(&args->tensors[2]);
  uint64_t i;
  for (i = 0; i < n; i++) {
    *element_of(&args->tensors[2], i) = *element_of(&args->tensors[0], i) + *element_of(&args->tensors[1], i);
  }
}

void increment(const simpler_kernel_context *context UNUSED, const simpler_args *args) {
  const uint64_t n = simpler_tensor_elements(&args->tensors[0]);
  uint64_t i;
  for (i = 0; i < n; i++) __atomic_fetch_add(words(args, 0) + i, 1, __ATOMIC_RELAXED);
}

void accumulate(const simpler_kernel_context *context UNUSED, const simpler_args *args) {
  const uint64_t n = simpler_tensor_elements(&args->tensors[0]);
  uint64_t i, sum = 0;
  for (i = 0; i < n; i++) sum += *element_of(&args->tensors[0], i);
  words(args, 1)[0] += sum;
}

void touch_first(const simpler_kernel_context *context UNUSED, const simpler_args *args) {
  words(args, 0)[0] = args->scalars[0];
}

void next_cell(const simpler_kernel_context *context UNUSED, const simpler_args *args) {
  const uint32_t last = args->tensor_count - 1;
  uint64_t sum = 1;
  uint32_t i;
  for (i = 0; i < last; i++) sum += words(args, i)[0];
  words(args, last)[0] = sum;
}

void gate(const simpler_kernel_context *context, const simpler_args *args) {
  uint64_t *word = words(args, 0);
  __atomic_fetch_add(word + 1, 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0) simpler_kernel_yield(context);
}

void slow(const simpler_kernel_context *context, const simpler_args *args) {
  const uint64_t end = simpler_kernel_time_ns(context) + args->scalars[0];
  while (simpler_kernel_time_ns(context) < end) {
  }
}

void spin(const simpler_kernel_context *context UNUSED, const simpler_args *args) {
  volatile int never = 0;
  if (args->tensor_count > 0) __atomic_fetch_add(words(args, 0) + 1, 1, __ATOMIC_SEQ_CST);
  while (never == 0) {
  }
}

void fail(const simpler_kernel_context *context, const simpler_args *args) {
  uint32_t t;
  uint64_t i;
  for (t = 0; t < args->tensor_count; t++) {
    for (i = 0; i < simpler_tensor_elements(&args->tensors[t]); i++) words(args, t)[i] = 77;
  }
  simpler_kernel_fail(context, args->scalar_count > 0 ? (int32_t)args->scalars[0] : 1, "failing on purpose");
}

void crash(const simpler_kernel_context *context UNUSED, const simpler_args *args UNUSED) {
  volatile int *volatile nowhere = NULL;
  *nowhere = 1; /* NOLINT(clang-analyzer-core.NullDereference): it is to crash */
}

void exit_3(const simpler_kernel_context *context UNUSED, const simpler_args *args UNUSED) { exit(3); }

void kill_itself(const simpler_kernel_context *context UNUSED, const simpler_args *args UNUSED) { kill(getpid(), SIGKILL); }

void say(const simpler_kernel_context *context, const simpler_args *args UNUSED) {
  simpler_kernel_log(context, SIMPLER_LOG_WARNING, "hello from a kernel");
}

void abort_itself(const simpler_kernel_context *context UNUSED, const simpler_args *args UNUSED) { abort(); }

/* ---- building tasks ------------------------------------------------------------------------------------------------- */

static simpler_tensor element(const simpler_args *args, uint64_t i) {
  return simpler_tensor_slice(&args->tensors[0], 0, i, 1);
}

static simpler_status submit(simpler_orch *orch, int kernel, simpler_task_tensor *tensors, uint32_t tensor_count,
                             const uint64_t *scalars, uint32_t scalar_count) {
  simpler_kernel_task task = SIMPLER_KERNEL_TASK_INIT;
  task.aiv0 = (uint32_t)kernel;
  task.tensors = tensors;
  task.tensor_count = tensor_count;
  task.scalars = scalars;
  task.scalar_count = scalar_count;
  return simpler_orch_submit(orch, &task, NULL);
}

static simpler_status submit_inout(simpler_orch *orch, int kernel, simpler_tensor view) {
  simpler_task_tensor argument = {&view, SIMPLER_TAG_INOUT, 0};
  return submit(orch, kernel, &argument, 1, NULL, 0);
}

/* ---- orchestrations: graphs ----------------------------------------------------------------------------------------- */

#define ORCH(name)                                                       \
  SIMPLER_EXPORT int name(simpler_orch *orch, const simpler_args *args); \
  int name(simpler_orch *orch UNUSED, const simpler_args *args UNUSED)

ORCH(orch_empty) { return 0; }

ORCH(orch_empty_scopes) {
  int i;
  for (i = 0; i < 10; i++) simpler_orch_scope_begin(orch, SIMPLER_SCOPE_AUTO);
  for (i = 0; i < 10; i++) simpler_orch_scope_end(orch);
  return 0;
}

static int chain(simpler_orch *orch, const simpler_args *args, int kernel) {
  const uint64_t n = args->scalars[0];
  uint64_t i;
  for (i = 0; i < n; i++) submit_inout(orch, kernel, element(args, 0));
  return 0;
}
ORCH(orch_chain) { return chain(orch, args, kernel_increment); }
ORCH(orch_chain_nothing) { return chain(orch, args, kernel_nothing); }

static int independent(simpler_orch *orch, const simpler_args *args, int kernel) {
  const uint64_t n = args->scalars[0], size = args->tensors[0].shape[0];
  uint64_t i;
  for (i = 0; i < n; i++) submit_inout(orch, kernel, element(args, i % size));
  return 0;
}
ORCH(orch_independent) { return independent(orch, args, kernel_increment); }
ORCH(orch_independent_nothing) { return independent(orch, args, kernel_nothing); }

static simpler_tensor cell(const simpler_args *args, uint64_t row, uint64_t column) {
  const simpler_tensor one_row = simpler_tensor_slice(&args->tensors[0], 0, row, 1);
  return simpler_tensor_slice(&one_row, 1, column, 1);
}

static int grid(simpler_orch *orch, const simpler_args *args, int kernel) {
  const uint64_t rows = args->scalars[0], columns = args->scalars[1];
  uint64_t r, c;
  for (r = 0; r < rows; r++) {
    for (c = 0; c < columns; c++) {
      simpler_tensor views[3];
      simpler_task_tensor tensors[3];
      uint32_t n = 0;
      if (r > 0) views[n++] = cell(args, r - 1, c);
      if (c > 0) views[n++] = cell(args, r, c - 1);
      views[n++] = cell(args, r, c);
      for (uint32_t i = 0; i < n; i++) {
        tensors[i] = (simpler_task_tensor){&views[i], i + 1 == n ? SIMPLER_TAG_OUTPUT_EXISTING : SIMPLER_TAG_INPUT, 0};
      }
      submit(orch, kernel, tensors, n, NULL, 0);
    }
  }
  return 0;
}
ORCH(orch_grid) { return grid(orch, args, kernel_next_cell); }
ORCH(orch_grid_nothing) { return grid(orch, args, kernel_nothing); }

static int fan(simpler_orch *orch, const simpler_args *args, int first, int middle) {
  const uint64_t width = args->scalars[0], rounds = args->scalars[1];
  uint64_t round, i;
  for (round = 0; round < rounds; round++) {
    simpler_tensor head = element(args, 0), leaves = simpler_tensor_slice(&args->tensors[0], 0, 1, width);
    simpler_task_tensor all[2] = {{&leaves, SIMPLER_TAG_INPUT, 0}, {&head, SIMPLER_TAG_INOUT, 0}};
    submit_inout(orch, first, head);
    for (i = 0; i < width; i++) {
      simpler_tensor leaf = element(args, 1 + i);
      simpler_task_tensor tensors[2] = {{&leaf, SIMPLER_TAG_INOUT, 0}, {&head, SIMPLER_TAG_INPUT, 0}};
      submit(orch, middle, tensors, 2, NULL, 0);
    }
    submit(orch, kernel_nothing, all, 2, NULL, 0);
  }
  return 0;
}
ORCH(orch_fan) { return fan(orch, args, kernel_increment, kernel_increment); }
ORCH(orch_fan_nothing) { return fan(orch, args, kernel_nothing, kernel_nothing); }

/* ---- orchestrations: memory and scopes ------------------------------------------------------------------------------ */

ORCH(orch_outputs) {
  const uint64_t n = args->scalars[0], elements = args->scalars[1], scoped = args->scalars[2], one = 1;
  uint64_t i;
  for (i = 0; i < n; i++) {
    simpler_tensor made = simpler_tensor_make(SIMPLER_DTYPE_UINT64, 1, &elements), first, sum = element(args, 0);
    simpler_task_tensor output = {&made, SIMPLER_TAG_OUTPUT, 0},
                        add_up[2] = {{&first, SIMPLER_TAG_INPUT, 0}, {&sum, SIMPLER_TAG_INOUT, 0}};
    if (scoped) simpler_orch_scope_begin(orch, SIMPLER_SCOPE_AUTO);
    if (submit(orch, kernel_fill, &output, 1, &one, 1) != SIMPLER_OK) return 0;
    first = simpler_tensor_slice(&made, 0, 0, 1);
    submit(orch, kernel_accumulate, add_up, 2, NULL, 0);
    if (scoped) simpler_orch_scope_end(orch);
  }
  return 0;
}

/* Half of the memory is then written, so that the next round meets dirty bytes. */
ORCH(orch_alloc) {
  const uint64_t n = args->scalars[0], elements = args->scalars[1], dirt = 0xdddd;
  uint64_t i;
  for (i = 0; i < n; i++) {
    simpler_tensor made = simpler_tensor_make(SIMPLER_DTYPE_UINT64, 1, &elements), sum = element(args, 0);
    simpler_task_tensor dirty = {&made, SIMPLER_TAG_OUTPUT_EXISTING, 0};
    simpler_task_tensor add_up[2] = {{&made, SIMPLER_TAG_INPUT, 0}, {&sum, SIMPLER_TAG_INOUT, 0}};
    simpler_orch_scope_begin(orch, SIMPLER_SCOPE_AUTO);
    if (simpler_orch_alloc(orch, &made) != SIMPLER_OK) return 0;
    submit(orch, kernel_accumulate, add_up, 2, NULL, 0); /* adds 0 */
    submit(orch, kernel_fill, &dirty, 1, &dirt, 1);
    submit_inout(orch, kernel_increment, sum);
    simpler_orch_scope_end(orch);
  }
  return 0;
}

ORCH(orch_scopes) {
  const uint64_t depth = args->scalars[0];
  uint64_t i;
  for (i = 0; i < depth; i++) {
    simpler_orch_scope_begin(orch, SIMPLER_SCOPE_AUTO);
    submit_inout(orch, kernel_increment, element(args, 0));
  }
  for (i = 0; i < depth; i++) simpler_orch_scope_end(orch);
  return 0;
}

ORCH(orch_gate_first) {
  simpler_tensor door = args->tensors[1];
  simpler_tensor counter = element(args, 0);
  simpler_task_tensor at_gate[2] = {{&door, SIMPLER_TAG_NO_DEP, 0}, {&counter, SIMPLER_TAG_INOUT, 0}};
  submit(orch, kernel_gate, at_gate, 2, NULL, 0);
  submit_inout(orch, kernel_increment, counter);
  return 0;
}

/* ---- orchestrations: failures --------------------------------------------------------------------------------------- */

ORCH(orch_fail) {
  const uint64_t four = 4;
  simpler_tensor t = simpler_tensor_make(SIMPLER_DTYPE_UINT64, 1, &four);
  const simpler_status status = simpler_orch_fail(orch, (int32_t)args->scalars[0], "failing on purpose");
  uint64_t wrong = 0;
  wrong += status != SIMPLER_ORCHESTRATION_FAILED;
  wrong += submit_inout(orch, kernel_increment, element(args, 0)) == SIMPLER_OK;
  wrong += simpler_orch_scope_begin(orch, SIMPLER_SCOPE_AUTO) == SIMPLER_OK;
  wrong += simpler_orch_alloc(orch, &t) == SIMPLER_OK;
  wrong += simpler_orch_scope_end(orch) == SIMPLER_OK;
  wrong += simpler_orch_submit(orch, NULL, NULL) == SIMPLER_OK;
  wrong += simpler_orch_fail(orch, 99, "the second failure does not count") == SIMPLER_OK;
  wrong += !simpler_orch_failed(orch);
  words(args, 0)[0] = wrong;
  return status;
}

ORCH(orch_fail_later) {
  int i;
  for (i = 0; i < 10; i++) submit_inout(orch, kernel_increment, element(args, 0));
  return simpler_orch_fail(orch, (int32_t)args->scalars[0], "failing on purpose");
}

ORCH(orch_return) { return (int)args->scalars[0]; }

ORCH(orch_return_failed) {
  submit_inout(orch, 12345, element(args, 0));
  return 0;
}

ORCH(orch_unclosed) {
  simpler_orch_scope_begin(orch, SIMPLER_SCOPE_AUTO);
  submit_inout(orch, kernel_increment, element(args, 0));
  return 0;
}

ORCH(orch_mistake) {
  simpler_kernel_task task = SIMPLER_KERNEL_TASK_INIT;
  simpler_tensor view = args->tensors[0];
  simpler_task_tensor argument = {&view, SIMPLER_TAG_INOUT, 0};
  const simpler_task_id future = (uint64_t)1 << 40;
  task.aiv0 = kernel_increment;
  task.tensors = &argument;
  task.tensor_count = 1;
  switch (args->scalars[0]) {
    case WORK_MISTAKE_NULL_TASK:
      return simpler_orch_submit(orch, NULL, NULL);
    case WORK_MISTAKE_UNKNOWN_KERNEL:
      task.aiv0 = 777;
      break;
    case WORK_MISTAKE_ZERO_BLOCKS:
      task.block_count = 0;
      break;
    case WORK_MISTAKE_NULL_TENSOR:
      argument.tensor = NULL;
      break;
    case WORK_MISTAKE_TAG:
      argument.tag = 9;
      break;
    case WORK_MISTAKE_RANK:
      view.rank = SIMPLER_RANK_MAX + 1;
      break;
    case WORK_MISTAKE_SLICE:
      view = simpler_tensor_slice(&view, 0, 1, view.shape[0]);
      break;
    case WORK_MISTAKE_DTYPE:
      view.dtype = 99;
      break;
    case WORK_MISTAKE_OUTSIDE:
      view.shape[0]++;
      break;
    case WORK_MISTAKE_FUTURE_TASK:
      task.after = &future;
      task.after_count = 1;
      break;
    case WORK_MISTAKE_SCOPE_END:
      return simpler_orch_scope_end(orch);
    case WORK_MISTAKE_ALLOC_NULL:
      return simpler_orch_alloc(orch, NULL);
    default:
      return simpler_orch_fail(orch, -1, "no such mistake");
  }
  return simpler_orch_submit(orch, &task, NULL);
}

ORCH(orch_failing_task) {
  simpler_tensor zero = element(args, 0);
  simpler_task_tensor argument = {&zero, SIMPLER_TAG_INOUT, 0};
  simpler_kernel_task task = SIMPLER_KERNEL_TASK_INIT;
  uint64_t i;
  task.aiv0 = (uint32_t)kernel_fail;
  task.tensors = &argument;
  task.tensor_count = 1;
  task.scalars = args->scalars;
  task.scalar_count = 1;
  task.label = "the broken one";
  simpler_orch_submit(orch, &task, NULL);
  for (i = 0; i < 2; i++) submit_inout(orch, kernel_increment, zero);
  for (i = 1; i <= 3; i++) submit_inout(orch, kernel_increment, element(args, i));
  return 0;
}

ORCH(orch_crash) {
  crash(NULL, args);
  return 0;
}
