/* Three elementwise kernels on contiguous float32 tensors of any shape. Each runs on one vector core. */
#include "kernels.h"

/* Elements of the task, or 0 after a failure: the last tensor is the output, and all have to be of its size. */
static uint64_t common_elements(const simpler_kernel_context *context, const simpler_args *args, uint32_t tensors,
                                uint32_t scalars) {
  uint64_t n;
  uint32_t i;
  if (args->tensor_count != tensors || args->scalar_count != scalars) {
    simpler_kernel_fail(context, 1, "wrong number of arguments");
    return 0;
  }
  n = simpler_tensor_elements(&args->tensors[tensors - 1]);
  for (i = 0; i < tensors; i++) {
    if (args->tensors[i].dtype != SIMPLER_DTYPE_FLOAT32 || simpler_tensor_elements(&args->tensors[i]) != n) {
      simpler_kernel_fail(context, 2, "tensors have to be float32 and of one size");
      return 0;
    }
  }
  return n;
}

void vector_add(const simpler_kernel_context *context, const simpler_args *args) {
  const uint64_t n = common_elements(context, args, 3, 0);
  const float *x = args->tensors[0].data;
  const float *y = args->tensors[1].data;
  float *out = args->tensors[2].data;
  uint64_t i;
  for (i = 0; i < n; i++) out[i] = x[i] + y[i];
}

void vector_add_scalar(const simpler_kernel_context *context, const simpler_args *args) {
  const uint64_t n = common_elements(context, args, 2, 1);
  const float *x = args->tensors[0].data;
  const float scalar = n > 0 ? simpler_scalar_to_f32(args->scalars[0]) : 0.0f;
  float *out = args->tensors[1].data;
  uint64_t i;
  for (i = 0; i < n; i++) out[i] = x[i] + scalar;
}

void vector_mul(const simpler_kernel_context *context, const simpler_args *args) {
  const uint64_t n = common_elements(context, args, 3, 0);
  const float *x = args->tensors[0].data;
  const float *y = args->tensors[1].data;
  float *out = args->tensors[2].data;
  uint64_t i;
  for (i = 0; i < n; i++) out[i] = x[i] * y[i];
}
