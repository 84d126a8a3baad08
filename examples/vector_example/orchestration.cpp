// The graph f = (a + b + 1)(a + b + 2) + (a + b), as five tasks with six dependencies:
//
//   c = a + b
//   d = c + 1      c -> d
//   e = c + 2      c -> e
//   g = d * e      d -> g, e -> g
//   f = g + c      g -> f, c -> f
//
// Nobody states the dependencies: they follow from which tensors tasks read and write. a, b and f are arguments of the run;
// c, d, e and g are intermediates, whose memory the runtime allocates when their task is submitted (OUTPUT).
#include <initializer_list>

#include "kernel_ids.h"
#include "kernels.h"

namespace {

const simpler_callable_kernel kernels[] = {
    SIMPLER_KERNEL(KERNEL_ADD, SIMPLER_CORE_AIV, vector_add),
    SIMPLER_KERNEL(KERNEL_ADD_SCALAR, SIMPLER_CORE_AIV, vector_add_scalar),
    SIMPLER_KERNEL(KERNEL_MUL, SIMPLER_CORE_AIV, vector_mul),
};

// Tensors made inside a scope may be reclaimed once it has ended and their consumers are done.
class Scope {
 public:
  explicit Scope(simpler_orch *orch) : orch_(orch) { simpler_orch_scope_begin(orch_, SIMPLER_SCOPE_AUTO); }
  ~Scope() { simpler_orch_scope_end(orch_); }
  Scope(const Scope &) = delete;
  Scope &operator=(const Scope &) = delete;

 private:
  simpler_orch *orch_;
};

simpler_task_tensor in(simpler_tensor &t) { return {&t, SIMPLER_TAG_INPUT, 0}; }
simpler_task_tensor out(simpler_tensor &t) {
  return {&t, t.data == nullptr ? SIMPLER_TAG_OUTPUT : SIMPLER_TAG_OUTPUT_EXISTING, 0};
}

// The status needs no check: after a failure the run has failed, and further calls do nothing.
void submit(simpler_orch *orch, const char *label, uint32_t kernel, std::initializer_list<simpler_task_tensor> tensors,
            std::initializer_list<uint64_t> scalars = {}) {
  simpler_kernel_task task = SIMPLER_KERNEL_TASK_INIT;
  task.aiv0 = kernel;
  task.tensors = tensors.begin();
  task.tensor_count = static_cast<uint32_t>(tensors.size());
  task.scalars = scalars.begin();
  task.scalar_count = static_cast<uint32_t>(scalars.size());
  task.label = label;
  simpler_orch_submit(orch, &task, nullptr);
}

simpler_tensor tensor_like(const simpler_tensor &t) { return simpler_tensor_make(SIMPLER_DTYPE_FLOAT32, t.rank, t.shape); }

int vector_example(simpler_orch *orch, const simpler_args *args) {
  if (args->tensor_count != 3) return simpler_orch_fail(orch, 1, "expects the tensors a, b and f");
  simpler_tensor a = args->tensors[0], b = args->tensors[1], f = args->tensors[2];

  const Scope outer(orch);
  simpler_tensor c = tensor_like(f);
  submit(orch, "c = a + b", KERNEL_ADD, {in(a), in(b), out(c)});
  {
    const Scope inner(orch);
    simpler_tensor d = tensor_like(f), e = tensor_like(f), g = tensor_like(f);
    submit(orch, "d = c + 1", KERNEL_ADD_SCALAR, {in(c), out(d)}, {simpler_scalar_from_f32(1.0f)});
    submit(orch, "e = c + 2", KERNEL_ADD_SCALAR, {in(c), out(e)}, {simpler_scalar_from_f32(2.0f)});
    submit(orch, "g = d * e", KERNEL_MUL, {in(d), in(e), out(g)});
    submit(orch, "f = g + c", KERNEL_ADD, {in(g), in(c), out(f)});
  }
  return 0;
}

}  // namespace

// A second orchestration over the same kernels, f = (a + b)^2, which the host program registers by name.
SIMPLER_EXPORT int vector_square(simpler_orch *orch, const simpler_args *args) {
  if (args->tensor_count != 3) return simpler_orch_fail(orch, 1, "expects the tensors a, b and f");
  simpler_tensor a = args->tensors[0], b = args->tensors[1], f = args->tensors[2];
  simpler_tensor c = tensor_like(f);
  submit(orch, "c = a + b", KERNEL_ADD, {in(a), in(b), out(c)});
  submit(orch, "f = c * c", KERNEL_MUL, {in(c), in(c), out(f)});
  return 0;
}

// What is registered by default: the graph above with its three kernels.
SIMPLER_CALLABLE("vector_example", vector_example, kernels);
