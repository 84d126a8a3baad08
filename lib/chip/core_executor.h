// The AICore's program: takes the task word, acknowledges, calls the kernel with its context, and reports.
//
// One executor per worker (carrier or orchestrator thread); it is whichever core the worker holds at the time. Services that a kernel
// gets (yield, time, fail, log) are implemented here.
#pragma once

#include <cstdint>
#include <string>

#include "chip/geometry.h"
#include "chip/outbox.h"
#include "chip/registers.h"
#include "chip/task_payload.h"
#include "graph/task_slot.h"

namespace simpler::chip {

class CoreExecutor {
 public:
  CoreExecutor(uint32_t chip, Outbox &outbox);
  CoreExecutor(const CoreExecutor &) = delete;
  CoreExecutor &operator=(const CoreExecutor &) = delete;

  // Which core the worker holds from now on.
  void enter_core(CoreRegisters &registers, const CoreIdentity &identity);
  // Runs what the task word of that core says. False when the kernel failed; `failure` then has code and text.
  bool execute(const graph::TaskSlot &task, TaskPayload &payload);

  struct Failure {
    int32_t code = 0;
    std::string text;
  };
  const Failure &failure() const { return call_.failure; }

 private:
  // What the kernel gets a pointer to, and what we find behind that pointer in a service.
  struct Call {
    simpler_kernel_context context{};
    Outbox *outbox = nullptr;
    bool failed = false;  // by this call
    Failure failure;
  };
  static const simpler_kernel_services kServices;
  static Call &call_of(const simpler_kernel_context *context);
  static void fail(const simpler_kernel_context *context, int32_t code, const char *text);
  static void log(const simpler_kernel_context *context, simpler_log_level level, const char *text);
  void fail_by_exception();

  Call call_;
  CoreRegisters *registers_ = nullptr;
};

}  // namespace simpler::chip
