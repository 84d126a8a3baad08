// Orchestrations in C++ for tests through simpler.h; work.h says what each does.
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "simpler/device.h"

namespace {

// Destructors have to run when exceptions pass and when the object is unloaded.
struct Counted {
  static inline int alive = 0;
  Counted() { alive++; }
  Counted(const Counted &) = delete;
  Counted &operator=(const Counted &) = delete;
  ~Counted() { alive--; }
};

template <typename T>
std::string &remembered() {
  static std::string text = "a function-local static of a template";
  return text;
}

thread_local std::string local_text = "thread-local";

}  // namespace

SIMPLER_EXPORT int orch_throws(simpler_orch *, const simpler_args *) {
  const Counted counted;
  throw std::runtime_error("thrown on purpose");
}

SIMPLER_EXPORT int orch_throws_number(simpler_orch *, const simpler_args *) { throw 5; }

SIMPLER_EXPORT int orch_cxx(simpler_orch *orch, const simpler_args *args) {
  const std::map<std::string, uint32_t> kernels = {{"increment", 5}};
  std::vector<std::unique_ptr<simpler_tensor>> views;
  int caught = 0;
  try {
    orch_throws(orch, args);
  } catch (const std::runtime_error &error) {
    caught = error.what() == std::string("thrown on purpose");
  }
  remembered<int>() += local_text;
  for (int i = 0; i < 5 + caught; i++) {
    views.push_back(std::make_unique<simpler_tensor>(simpler_tensor_slice(&args->tensors[0], 0, 0, 1)));
    const simpler_task_tensor argument = {views.back().get(), SIMPLER_TAG_INOUT, 0};
    simpler_kernel_task task = SIMPLER_KERNEL_TASK_INIT;
    task.aiv0 = kernels.at("increment");
    task.tensors = &argument;
    task.tensor_count = 1;
    simpler_orch_submit(orch, &task, nullptr);
  }
  return Counted::alive;
}

// Kernels of its own, so that the object is a callable like any other.
SIMPLER_EXPORT void increment(const simpler_kernel_context *, const simpler_args *args) {
  auto *words = static_cast<uint64_t *>(args->tensors[0].data);
  for (uint64_t i = 0; i < simpler_tensor_elements(&args->tensors[0]); i++)
    __atomic_fetch_add(words + i, 1, __ATOMIC_RELAXED);
}
