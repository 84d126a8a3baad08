#include <simpler/device.h>

static void increment(const simpler_kernel_context *context, const simpler_args *args) {
  const simpler_tensor *t = &args->tensors[0];
  float *values = (float *)t->data;
  uint64_t i;
  (void)context;
  for (i = 0; i < simpler_tensor_elements(t); i++) values[i] += 1.0f;
}

static const simpler_callable_kernel kernels[] = {
    SIMPLER_KERNEL(1, SIMPLER_CORE_AIV, increment),
};
SIMPLER_CALLABLE("increment", NULL, kernels);
