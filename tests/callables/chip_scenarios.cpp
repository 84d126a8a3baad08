// Orchestrations for the tests of the chip. The first scalar chooses one (see the switch at the end), further scalars are its
// parameters, the first tensor is a row of uint64 that the host looks at afterwards.
#include <cstring>
#include <stdexcept>
#include <string>

#include "chip_scenarios.h"
#include "simpler/device.h"

namespace {

uint64_t *words(const simpler_args *args, uint32_t i = 0) { return static_cast<uint64_t *>(args->tensors[i].data); }

void add_to(uint64_t *word, uint64_t value) { __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST); }

// ---- kernels ----------------------------------------------------------------------------------------------------------

// Adds one to element `block` of the first tensor.
void count(const simpler_kernel_context *context, const simpler_args *args) {
  add_to(words(args) + context->block_index, 1);
}

// Writes who ran it: four words a block.
void record(const simpler_kernel_context *context, const simpler_args *args) {
  uint64_t *out = words(args) + context->block_index * 4;
  add_to(out, 1);
  out[1] = context->core_type;
  out[2] = context->core_id;
  out[3] = (uint64_t{context->position} << 32) + context->block_count;
}

void nothing(const simpler_kernel_context *, const simpler_args *) {}

// Set by an orchestration that has submitted everything: a failed run takes no more tasks.
bool has_submitted_all;

void await_all_submitted(const simpler_kernel_context *context) {
  while (!__atomic_load_n(&has_submitted_all, __ATOMIC_ACQUIRE)) simpler_kernel_yield(context);
}

void fail_with_42(const simpler_kernel_context *context, const simpler_args *args) {
  if (args->scalar_count != 0 && args->scalars[0] != context->block_index) return;
  await_all_submitted(context);
  simpler_kernel_fail(context, 42, "as asked for");
  simpler_kernel_fail(context, 43, "a second call does not count");
}

void throw_error(const simpler_kernel_context *context, const simpler_args *) {
  await_all_submitted(context);
  throw std::runtime_error("thrown by a kernel");
}

// Says that it runs (element 1), then waits until element 0 is set.
void wait_for_word(const simpler_kernel_context *context, const simpler_args *args) {
  add_to(words(args) + 1, 1);
  while (__atomic_load_n(words(args), __ATOMIC_ACQUIRE) == 0) simpler_kernel_yield(context);
}

void log_line(const simpler_kernel_context *context, const simpler_args *) {
  simpler_kernel_log(context, SIMPLER_LOG_WARNING, "hello from a kernel");
  simpler_kernel_log(context, SIMPLER_LOG_DEBUG, "too quiet to be heard");
}

// Adds the words of the second tensor to the first. Not atomic: right only when ordered.
void sum_words(const simpler_kernel_context *, const simpler_args *args) {
  const simpler_tensor &in = args->tensors[1];
  uint64_t sum = 0;
  for (uint64_t i = 0; i < in.shape[0]; i++) sum += words(args, 1)[i * in.strides[0]];
  words(args)[0] += sum;
}

const float *floats(const simpler_args *args, uint32_t i) { return static_cast<const float *>(args->tensors[i].data); }

void vector_add(const simpler_kernel_context *, const simpler_args *args) {
  float *out = static_cast<float *>(args->tensors[2].data);
  const uint64_t n = simpler_tensor_elements(&args->tensors[2]);
  for (uint64_t i = 0; i < n; i++) out[i] = floats(args, 0)[i] + floats(args, 1)[i];
}
void vector_add_scalar(const simpler_kernel_context *, const simpler_args *args) {
  float *out = static_cast<float *>(args->tensors[1].data);
  const float value = simpler_scalar_to_f32(args->scalars[0]);
  const uint64_t n = simpler_tensor_elements(&args->tensors[1]);
  for (uint64_t i = 0; i < n; i++) out[i] = floats(args, 0)[i] + value;
}
void vector_multiply(const simpler_kernel_context *, const simpler_args *args) {
  float *out = static_cast<float *>(args->tensors[2].data);
  const uint64_t n = simpler_tensor_elements(&args->tensors[2]);
  for (uint64_t i = 0; i < n; i++) out[i] = floats(args, 0)[i] * floats(args, 1)[i];
}

enum : uint32_t {
  kCount = 1,
  kRecordAiv,
  kRecordAic,
  kNothing,
  kFail,
  kThrow,
  kWait,
  kLog,
  kSum,
  kAdd,
  kAddScalar,
  kMultiply,
  kNothingAic
};

const simpler_callable_kernel kernels[] = {
    SIMPLER_KERNEL(kCount, SIMPLER_CORE_AIV, count),
    SIMPLER_KERNEL(kRecordAiv, SIMPLER_CORE_AIV, record),
    SIMPLER_KERNEL(kRecordAic, SIMPLER_CORE_AIC, record),
    SIMPLER_KERNEL(kNothing, SIMPLER_CORE_AIV, nothing),
    SIMPLER_KERNEL(kFail, SIMPLER_CORE_AIV, fail_with_42),
    SIMPLER_KERNEL(kThrow, SIMPLER_CORE_AIV, throw_error),
    SIMPLER_KERNEL(kWait, SIMPLER_CORE_AIV, wait_for_word),
    SIMPLER_KERNEL(kLog, SIMPLER_CORE_AIV, log_line),
    SIMPLER_KERNEL(kSum, SIMPLER_CORE_AIV, sum_words),
    SIMPLER_KERNEL(kAdd, SIMPLER_CORE_AIV, vector_add),
    SIMPLER_KERNEL(kAddScalar, SIMPLER_CORE_AIV, vector_add_scalar),
    SIMPLER_KERNEL(kMultiply, SIMPLER_CORE_AIV, vector_multiply),
    SIMPLER_KERNEL(kNothingAic, SIMPLER_CORE_AIC, nothing),
};

// ---- building tasks ---------------------------------------------------------------------------------------------------

struct Task {
  simpler_kernel_task task = SIMPLER_KERNEL_TASK_INIT;
  simpler_task_tensor tensors[8] = {};
  simpler_tensor views[8] = {};
  uint64_t scalars[4] = {};

  explicit Task(uint32_t aiv, const char *label = nullptr) {
    task.aiv0 = aiv;
    task.label = label;
    task.tensors = tensors;
    task.scalars = scalars;
  }
  Task &tensor(const simpler_tensor &view, simpler_tag tag) {
    views[task.tensor_count] = view;
    tensors[task.tensor_count] = {&views[task.tensor_count], tag, 0};
    task.tensor_count++;
    return *this;
  }
  Task &scalar(uint64_t value) {
    scalars[task.scalar_count++] = value;
    return *this;
  }
  simpler_status submit(simpler_orch *orch, simpler_task_id *id = nullptr) { return simpler_orch_submit(orch, &task, id); }
};

simpler_tensor element(const simpler_args *args, uint64_t i) { return simpler_tensor_slice(&args->tensors[0], 0, i, 1); }

// ---- orchestrations ---------------------------------------------------------------------------------------------------

void independent(simpler_orch *orch, const simpler_args *args, uint32_t kernel) {
  const uint64_t n = args->tensors[0].shape[0];
  for (uint64_t i = 0; i < args->scalars[1]; i++) Task(kernel).tensor(element(args, i % n), SIMPLER_TAG_INOUT).submit(orch);
}

void chain(simpler_orch *orch, const simpler_args *args, uint32_t kernel) {
  for (uint64_t i = 0; i < args->scalars[1]; i++) Task(kernel).tensor(element(args, 0), SIMPLER_TAG_INOUT).submit(orch);
}

void shapes(simpler_orch *orch, const simpler_args *args) {
  Task aiv(kRecordAiv);
  aiv.tensor(simpler_tensor_slice(&args->tensors[0], 0, 0, 4), SIMPLER_TAG_INOUT).submit(orch);
  Task aic(SIMPLER_NO_KERNEL);
  aic.task.aic = kRecordAic;
  aic.tensor(simpler_tensor_slice(&args->tensors[0], 0, 4, 4), SIMPLER_TAG_INOUT).submit(orch);
  Task second(SIMPLER_NO_KERNEL);  // the other vector slot is a vector core as well
  second.task.aiv1 = kRecordAiv;
  second.tensor(simpler_tensor_slice(&args->tensors[0], 0, 8, 4), SIMPLER_TAG_INOUT).submit(orch);
  Task none(SIMPLER_NO_KERNEL);
  simpler_task_id id = 0;
  none.tensor(simpler_tensor_slice(&args->tensors[0], 0, 0, 12), SIMPLER_TAG_INOUT).submit(orch, &id);
  Task last(kCount);
  last.task.after = &id;
  last.task.after_count = 1;
  last.tensor(element(args, 12), SIMPLER_TAG_INOUT).submit(orch);
}

void spmd(simpler_orch *orch, const simpler_args *args) {
  Task task(kRecordAiv);
  task.task.block_count = static_cast<uint32_t>(args->scalars[1]);
  task.tensor(args->tensors[0], SIMPLER_TAG_INOUT);
  for (uint64_t i = 0; i < args->scalars[2]; i++) task.submit(orch);
}

void spmd_of_both_types(simpler_orch *orch, const simpler_args *args) {
  for (uint64_t i = 0; i < args->scalars[2]; i++) {
    Task task(SIMPLER_NO_KERNEL);
    (i % 2 == 0 ? task.task.aic : task.task.aiv0) = i % 2 == 0 ? kRecordAic : kRecordAiv;
    task.task.block_count = static_cast<uint32_t>(args->scalars[1]);
    task.tensor(args->tensors[0], SIMPLER_TAG_NO_DEP).submit(orch);
  }
}

// f = (a + b + 1)(a + b + 2) + (a + b): five tasks, six edges, an inner scope.
void vector_example(simpler_orch *orch, const simpler_args *args) {
  const simpler_tensor &a = args->tensors[0], &b = args->tensors[1], &f = args->tensors[2];
  simpler_tensor c = simpler_tensor_make(SIMPLER_DTYPE_FLOAT32, a.rank, a.shape), d = c, e = c, g = c;
  const auto submit = [&](uint32_t kernel, std::initializer_list<simpler_task_tensor> tensors, float value) {
    simpler_kernel_task task = SIMPLER_KERNEL_TASK_INIT;
    const uint64_t scalar = simpler_scalar_from_f32(value);
    task.aiv0 = kernel;
    task.tensors = tensors.begin();
    task.tensor_count = static_cast<uint32_t>(tensors.size());
    task.scalars = &scalar;
    task.scalar_count = kernel == kAddScalar ? 1 : 0;
    simpler_orch_submit(orch, &task, nullptr);
  };
  const auto in = [](const simpler_tensor &t) {
    return simpler_task_tensor{const_cast<simpler_tensor *>(&t), SIMPLER_TAG_INPUT, 0};
  };
  const auto out = [](simpler_tensor &t) { return simpler_task_tensor{&t, SIMPLER_TAG_OUTPUT, 0}; };
  submit(kAdd, {in(a), in(b), out(c)}, 0);
  simpler_orch_scope_begin(orch, SIMPLER_SCOPE_AUTO);
  submit(kAddScalar, {in(c), out(d)}, 1);
  submit(kAddScalar, {in(c), out(e)}, 2);
  submit(kMultiply, {in(d), in(e), out(g)}, 0);
  submit(kAdd, {in(g), in(c), {const_cast<simpler_tensor *>(&f), SIMPLER_TAG_OUTPUT_EXISTING, 0}}, 0);
  simpler_orch_scope_end(orch);
}

// A failing task, two that depend on it, three that do not.
void failing(simpler_orch *orch, const simpler_args *args, uint32_t kernel) {
  __atomic_store_n(&has_submitted_all, false, __ATOMIC_RELEASE);
  Task(kernel, "the broken one").tensor(element(args, 0), SIMPLER_TAG_INOUT).submit(orch);
  Task(kCount).tensor(element(args, 0), SIMPLER_TAG_INOUT).submit(orch);
  Task(kCount).tensor(element(args, 0), SIMPLER_TAG_INOUT).submit(orch);
  for (uint64_t i = 1; i <= 3; i++) Task(kCount).tensor(element(args, i), SIMPLER_TAG_INOUT).submit(orch);
  __atomic_store_n(&has_submitted_all, true, __ATOMIC_RELEASE);
}

void failing_block(simpler_orch *orch, const simpler_args *args) {
  __atomic_store_n(&has_submitted_all, true, __ATOMIC_RELEASE);
  Task task(kFail);
  task.task.block_count = 10;
  task.scalar(args->scalars[1]).tensor(args->tensors[0], SIMPLER_TAG_INOUT).submit(orch);
}

// Counts up in memory that it allocates, and adds the sum of that memory to element 0.
void allocated(simpler_orch *orch, const simpler_args *args) {
  const uint64_t n = 1000;
  for (uint64_t round = 0; round < args->scalars[1]; round++) {
    simpler_orch_scope_begin(orch, SIMPLER_SCOPE_AUTO);
    simpler_tensor t = simpler_tensor_make(SIMPLER_DTYPE_UINT64, 1, &n);
    simpler_orch_alloc(orch, &t);
    Task(kCount).tensor(t, SIMPLER_TAG_INOUT).submit(orch);
    Task(kSum).tensor(element(args, 0), SIMPLER_TAG_INOUT).tensor(t, SIMPLER_TAG_INPUT).submit(orch);
    simpler_orch_scope_end(orch);
  }
}

// One mistake each; the host knows the text that must come.
int mistake(simpler_orch *orch, const simpler_args *args) {
  Task task(kCount);
  simpler_tensor view = args->tensors[0];
  const uint64_t shape[2] = {UINT64_MAX / 4, 8};
  simpler_task_id id = 0;
  switch (args->scalars[1]) {
    case kMistakeNullTask:
      return simpler_orch_submit(orch, nullptr, nullptr);
    case kMistakeStructSize:
      task.task.struct_size = 8;
      break;
    case kMistakeUnknownKernel:
      task.task.aiv0 = 777;
      break;
    case kMistakeWrongCore:
      task.task.aiv0 = kRecordAic;
      break;
    case kMistakeWrongCoreAic:
      task.task.aiv0 = SIMPLER_NO_KERNEL;
      task.task.aic = kCount;
      break;
    case kMistakeZeroBlocks:
      task.task.block_count = 0;
      break;
    case kMistakeTensorCount:
      task.task.tensor_count = SIMPLER_TENSORS_MAX + 1;
      break;
    case kMistakeScalarCount:
      task.task.scalar_count = SIMPLER_SCALARS_MAX + 1;
      break;
    case kMistakeNullTensors:
      task.task.tensors = nullptr;
      task.task.tensor_count = 2;
      break;
    case kMistakeNullTensor:
      task.tensor(view, SIMPLER_TAG_INOUT);
      task.tensors[0].tensor = nullptr;
      break;
    case kMistakeNullScalars:
      task.task.scalars = nullptr;
      task.task.scalar_count = 1;
      break;
    case kMistakeNullAfter:
      task.task.after_count = 1;
      break;
    case kMistakeTag:
      task.tensor(view, 9);
      break;
    case kMistakeRank:
      view.rank = 9;
      task.tensor(view, SIMPLER_TAG_INOUT);
      break;
    case kMistakeSlice:
      task.tensor(simpler_tensor_slice(&view, 0, 1, view.shape[0]), SIMPLER_TAG_INOUT);
      break;
    case kMistakeDtype:
      view.dtype = 99;
      task.tensor(view, SIMPLER_TAG_INPUT);
      break;
    case kMistakeOverflow:
      view.strides[0] = UINT64_MAX / 2;
      task.tensor(view, SIMPLER_TAG_INPUT);
      break;
    case kMistakeOutside:
      view.shape[0] += 1;
      task.tensor(view, SIMPLER_TAG_INPUT);
      break;
    case kMistakeBefore:
      view.data = static_cast<char *>(view.data) - 8;
      task.tensor(view, SIMPLER_TAG_INPUT);
      break;
    case kMistakeZeroStride:
      view.strides[0] = 0;
      task.tensor(view, SIMPLER_TAG_INOUT);
      break;
    case kMistakeNoMemory:
      task.tensor(simpler_tensor_make(SIMPLER_DTYPE_UINT64, 1, &shape[1]), SIMPLER_TAG_INPUT);
      break;
    case kMistakeOutputWithData:
      task.tensor(view, SIMPLER_TAG_OUTPUT);
      break;
    case kMistakeOutputStrides:
      view = simpler_tensor_make(SIMPLER_DTYPE_UINT64, 1, &shape[1]);
      view.strides[0] = 3;
      task.tensor(view, SIMPLER_TAG_OUTPUT);
      break;
    case kMistakeOutputOverflow:
      task.tensor(simpler_tensor_make(SIMPLER_DTYPE_UINT64, 2, shape), SIMPLER_TAG_OUTPUT);
      break;
    case kMistakeFutureTask:
      id = 1'000'000'000'000;
      task.task.after = &id;
      task.task.after_count = 1;
      break;
    case kMistakeNoTask:
      task.task.after = &id;
      task.task.after_count = 1;
      break;
    case kMistakeScopeMode:
      return simpler_orch_scope_begin(orch, 5);
    case kMistakeAutoInManual:
      simpler_orch_scope_begin(orch, SIMPLER_SCOPE_MANUAL);
      simpler_orch_scope_begin(orch, SIMPLER_SCOPE_AUTO);
      simpler_orch_scope_end(orch);
      return simpler_orch_scope_end(orch);
    case kMistakeScopeEnd:
      return simpler_orch_scope_end(orch);
    case kMistakeUnclosedScope:
      return simpler_orch_scope_begin(orch, SIMPLER_SCOPE_AUTO);
    case kMistakeAllocNull:
      return simpler_orch_alloc(orch, nullptr);
    case kMistakeAllocTwice:
      return simpler_orch_alloc(orch, &view);
    case kMistakeFlags:
      task.task.flags = 2;
      break;
    case kMistakeReturn:
      return 17;
    case kMistakeFail:
      return simpler_orch_fail(orch, 18, "given up");
    case kMistakeThrow:
      throw std::runtime_error("thrown by an orchestration");
    case kMistakeThrowNonsense:
      throw 5;
    case kMistakeHeap: {
      const uint64_t much = uint64_t{1} << 50;
      task.tensor(simpler_tensor_make(SIMPLER_DTYPE_UINT64, 1, &much), SIMPLER_TAG_OUTPUT);
      break;
    }
    case kMistakeWindow:
      for (int i = 0; i < 100; i++) {
        const uint64_t eight = 8;
        simpler_tensor t = simpler_tensor_make(SIMPLER_DTYPE_UINT64, 1, &eight);
        simpler_task_tensor argument = {&t, SIMPLER_TAG_OUTPUT, 0};
        simpler_kernel_task output = SIMPLER_KERNEL_TASK_INIT;
        output.aiv0 = kNothing;
        output.tensors = &argument;
        output.tensor_count = 1;
        const simpler_status status = simpler_orch_submit(orch, &output, nullptr);
        if (status != SIMPLER_OK) return status;
      }
      return 0;
    default:
      return 99;
  }
  const simpler_status status = task.submit(orch, &id);
  // Whatever follows a mistake has no effect and gives the same status.
  if (status == SIMPLER_OK || !simpler_orch_failed(orch)) return 0;
  Task after(kCount);
  after.tensor(element(args, 0), SIMPLER_TAG_INOUT);
  if (after.submit(orch) != status || simpler_orch_scope_begin(orch, SIMPLER_SCOPE_AUTO) != status) return 100;
  return 0;
}

void explicit_order(simpler_orch *orch, const simpler_args *args) {
  simpler_orch_scope_begin(orch, SIMPLER_SCOPE_MANUAL);
  simpler_task_id last = 0;
  for (uint64_t i = 0; i < args->scalars[1]; i++) {
    Task task(kSum);  // not atomic: only right when ordered
    task.tensor(element(args, 0), SIMPLER_TAG_INOUT).tensor(element(args, 1), SIMPLER_TAG_INPUT);
    task.task.after = &last;
    task.task.after_count = last != 0 ? 1 : 0;
    task.submit(orch, &last);
  }
  simpler_orch_scope_end(orch);
}

// In each round element 0 is counted up, then `readers` tasks read it and each counts up an element of its own.
void fan(simpler_orch *orch, const simpler_args *args) {
  for (uint64_t round = 0; round < args->scalars[1]; round++) {
    Task(kCount).tensor(element(args, 0), SIMPLER_TAG_INOUT).submit(orch);
    for (uint64_t i = 1; i <= args->scalars[2]; i++)
      Task(kCount).tensor(element(args, i), SIMPLER_TAG_INOUT).tensor(element(args, 0), SIMPLER_TAG_INPUT).submit(orch);
  }
}

int scenarios(simpler_orch *orch, const simpler_args *args) {
  switch (args->scalars[0]) {
    case kScenarioNothing:
      return 0;
    case kScenarioIndependent:
      independent(orch, args, kCount);
      return 0;
    case kScenarioChain:
      chain(orch, args, kCount);
      return 0;
    case kScenarioIndependentEmpty:
      independent(orch, args, kNothing);
      return 0;
    case kScenarioChainEmpty:
      chain(orch, args, kNothing);
      return 0;
    case kScenarioShapes:
      shapes(orch, args);
      return 0;
    case kScenarioSpmd:
      spmd(orch, args);
      return 0;
    case kScenarioSpmdBoth:
      spmd_of_both_types(orch, args);
      return 0;
    case kScenarioVectorExample:
      vector_example(orch, args);
      return 0;
    case kScenarioFail:
      failing(orch, args, kFail);
      return 0;
    case kScenarioThrow:
      failing(orch, args, kThrow);
      return 0;
    case kScenarioFailBlock:
      failing_block(orch, args);
      return 0;
    case kScenarioAlloc:
      allocated(orch, args);
      return 0;
    case kScenarioMistake:
      return mistake(orch, args);
    case kScenarioWait:
      Task(kWait, "the waiting one").tensor(args->tensors[0], SIMPLER_TAG_NO_DEP).submit(orch);
      return 0;
    case kScenarioLog:
      simpler_orch_log(orch, SIMPLER_LOG_ERROR, "hello from an orchestration");
      Task(kLog).submit(orch);
      return 0;
    case kScenarioManual:
      explicit_order(orch, args);
      return 0;
    case kScenarioCounts:
      words(args)[0] = simpler_orch_cluster_count(orch);
      words(args)[1] = simpler_orch_core_count(orch, SIMPLER_CORE_AIC);
      words(args)[2] = simpler_orch_core_count(orch, SIMPLER_CORE_AIV);
      return 0;
    case kScenarioFan:
      fan(orch, args);
      return 0;
    default:
      return simpler_orch_fail(orch, 1, "no such scenario");
  }
}

}  // namespace

SIMPLER_CALLABLE("scenarios", scenarios, kernels);
