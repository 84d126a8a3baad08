/* Exports the same names as chip_names_b.c with another behaviour: the two must never be mixed up. */
#include "simpler/device.h"

SIMPLER_EXPORT int shared_counter;
SIMPLER_EXPORT uint64_t shared_answer(void);
SIMPLER_EXPORT uint64_t shared_answer(void) { return 0xa; }

SIMPLER_EXPORT void write_answer(const simpler_kernel_context *context, const simpler_args *args);
SIMPLER_EXPORT void write_answer(const simpler_kernel_context *context, const simpler_args *args) {
  (void)context;
  shared_counter++;
  *(uint64_t *)args->tensors[0].data = shared_answer() + ((uint64_t)shared_counter << 32);
}
