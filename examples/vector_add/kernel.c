/* A callable of one kernel: c = a + b. It needs the header simpler/device.h and links nothing:
 *
 *   cc -O2 -fPIC -shared -fvisibility=hidden $(pkg-config --cflags simpler) kernel.c -o vector_add.so */
#include <simpler/device.h>

/* Runs on one core of a chip. Tensors come in the order in which the host gave them. */
static void vector_add(const simpler_kernel_context *context, const simpler_args *args) {
  const float *a = args->tensors[0].data;
  const float *b = args->tensors[1].data;
  float *c = args->tensors[2].data;
  const uint64_t n = simpler_tensor_elements(&args->tensors[2]);
  uint64_t i;
  (void)context;
  for (i = 0; i < n; i++) c[i] = a[i] + b[i];
}

/* The table that describes this shared object to libsimpler. With one kernel and no orchestration (NULL), a run of the callable
 * is one task that runs the kernel. */
static const simpler_callable_kernel kernels[] = {
    SIMPLER_KERNEL(1, SIMPLER_CORE_AIV, vector_add),
};
SIMPLER_CALLABLE("vector_add", NULL, kernels);
