/* One source, many objects: built with K = 1, 2, ... as add_1.so, add_2.so, ... Their bytes and what they do differ, their
 * symbols do not. */
#include "simpler/device.h"

SIMPLER_EXPORT uint64_t add_k_constant;
uint64_t add_k_constant = K;

/* tensor 0 += K, uint64. K is read through an exported variable, so that a symbol taken from another version would show. */
SIMPLER_EXPORT void add_k(const simpler_kernel_context *context, const simpler_args *args);
void add_k(const simpler_kernel_context *context, const simpler_args *args) {
  uint64_t *words = args->tensors[0].data;
  uint64_t i;
  (void)context;
  for (i = 0; i < simpler_tensor_elements(&args->tensors[0]); i++) words[i] += add_k_constant;
}

static const simpler_callable_kernel kernels[] = {SIMPLER_KERNEL(1, SIMPLER_CORE_AIV, add_k)};
SIMPLER_CALLABLE("add_k", NULL, kernels);
