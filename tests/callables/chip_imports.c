/* Imports a function of libc. A test changes its name in the bytes, to get an object that the dynamic loader refuses. */
#include <unistd.h>

#include "simpler/device.h"

static void ask(const simpler_kernel_context *context, const simpler_args *args) {
  (void)context;
  *(uint64_t *)args->tensors[0].data = (uint64_t)getppid();
}

static const simpler_callable_kernel kernels[] = {SIMPLER_KERNEL(1, SIMPLER_CORE_AIV, ask)};
SIMPLER_CALLABLE("imports", NULL, kernels);
