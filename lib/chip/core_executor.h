// The AICore's program: takes the task word, acknowledges, calls the kernel with its context, and reports.
//
// One executor per thread that runs kernels; it is whichever core that thread holds at the time. The services that a kernel gets (device.h)
// are implemented here.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/signals.h"
#include "chip/carrier_pool.h"
#include "chip/cohort.h"
#include "chip/deferred_tasks.h"
#include "chip/geometry.h"
#include "chip/outbox.h"
#include "chip/registers.h"
#include "chip/task_payload.h"
#include "graph/task_slot.h"

namespace simpler::chip {

// What kernels reach through their services. Outlives all executors.
struct KernelEnvironment {
  uint32_t chip = 0;
  Outbox *outbox = nullptr;
  Signals signals;
  DeferredTasks *deferred = nullptr;
  std::function<bool()> is_over;  // whether the run has failed or is cancelled
};

class CoreExecutor {
 public:
  explicit CoreExecutor(const KernelEnvironment &environment);
  CoreExecutor(const CoreExecutor &) = delete;
  CoreExecutor &operator=(const CoreExecutor &) = delete;

  // Which core the thread holds from now on.
  void enter_core(CoreRegisters &registers, const CoreIdentity &identity);
  // The thread is a carrier of this pool, which puts another in its place while a kernel waits. Null: it is not.
  void set_carriers(CarrierPool *carriers) { call_.carriers = carriers; }
  // Runs what the task word of that core says: `kernel` of the task, as `member` of a cohort if that is not null. kFailed: `failure` has
  // code and text; kCancelled: the kernel waited and was told that the run is over.
  graph::Outcome execute(const graph::TaskSlot &task, TaskPayload &payload, const Kernel &kernel, Cohort *cohort = nullptr,
                         uint32_t member = 0);

  struct Failure {
    int32_t code = 0;
    std::string text;
  };
  const Failure &failure() const { return call_.failure; }

 private:
  // What the kernel gets a pointer to, and what we find behind that pointer in a service.
  struct Call {
    simpler_kernel_context context{};
    const KernelEnvironment *environment = nullptr;
    CarrierPool *carriers = nullptr;
    const TaskPayload *payload = nullptr;
    Cohort *cohort = nullptr;
    uint32_t member = 0;
    bool failed = false;     // by this call
    bool cancelled = false;  // a wait of this call ended by the end of the run
    Failure failure;
  };
  static const simpler_kernel_services kServices;
  static Call &call_of(const simpler_kernel_context *context);
  static void fail(const simpler_kernel_context *context, int32_t code, const char *text);
  static void log(const simpler_kernel_context *context, simpler_log_level level, const char *text);
  static simpler_status barrier(const simpler_kernel_context *context);
  static simpler_status push(const simpler_kernel_context *context, uint32_t position, uint64_t word);
  static simpler_status pop(const simpler_kernel_context *context, uint32_t position, uint64_t *word);
  static simpler_status signal_wait(const simpler_kernel_context *context, const uint64_t *signal, simpler_compare compare,
                                    uint64_t value);
  static simpler_status complete_when(const simpler_kernel_context *context, const uint64_t *signal, uint64_t value);
  static simpler_status end_wait(Call &call, Cohort::Wait wait, const char *function, const char *reason);
  static bool check_signal(const simpler_kernel_context *context, const uint64_t *signal, const char *function);
  static simpler_status check_peer(Call &call, uint32_t position, const char *function);
  static simpler_status refuse(Call &call, simpler_status status, const std::string &text);
  void fail_by_exception();

  Call call_;
  CoreRegisters *registers_ = nullptr;
};

}  // namespace simpler::chip
