// An object that stays in memory after dlclose: a thread-local object with a destructor keeps its library until the thread ends.
#include "simpler/device.h"

namespace {

struct Counter {
  uint64_t value = 0;
  ~Counter() { value = 0; }
};

void count(const simpler_kernel_context *, const simpler_args *args) {
  thread_local Counter counter;
  counter.value++;
  *static_cast<uint64_t *>(args->tensors[0].data) = 1;
}

const simpler_callable_kernel kernels[] = {SIMPLER_KERNEL(1, SIMPLER_CORE_AIV, count)};

}  // namespace

SIMPLER_CALLABLE("pinned", nullptr, kernels);
