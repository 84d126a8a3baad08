/* kernels.h - the kernels of the callable, for kernels.c and the orchestration. */
#ifndef VECTOR_EXAMPLE_KERNELS_H
#define VECTOR_EXAMPLE_KERNELS_H

#include <simpler/device.h>

/* SIMPLER_EXPORT: the host program also registers some of them one by one, by name. */
/* out = in0 + in1 */
SIMPLER_EXPORT void vector_add(const simpler_kernel_context *context, const simpler_args *args);
/* out = in + scalar */
SIMPLER_EXPORT void vector_add_scalar(const simpler_kernel_context *context, const simpler_args *args);
/* out = in0 * in1 */
SIMPLER_EXPORT void vector_mul(const simpler_kernel_context *context, const simpler_args *args);

#endif /* VECTOR_EXAMPLE_KERNELS_H */
