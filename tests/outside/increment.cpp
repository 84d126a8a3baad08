#include <algorithm>

#include <simpler/device.h>

namespace {

// An inline variable of a template would be a unique symbol, which keeps an object loaded for ever, without -fno-gnu-unique.
template <typename T>
struct Step {
  static inline T value = T{1};
};

void increment(const simpler_kernel_context *, const simpler_args *args) {
  const simpler_tensor &t = args->tensors[0];
  float *values = static_cast<float *>(t.data);
  std::for_each(values, values + simpler_tensor_elements(&t), [](float &v) { v += Step<float>::value; });
}

const simpler_callable_kernel kernels[] = {
    SIMPLER_KERNEL(1, SIMPLER_CORE_AIV, increment),
};

}  // namespace

SIMPLER_CALLABLE("increment", nullptr, kernels);
