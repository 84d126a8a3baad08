#include "chip/core_executor.h"

#include <exception>

#include "base/clock.h"
#include "base/wait.h"
#include "control/link.h"

namespace simpler::chip {

const simpler_kernel_services CoreExecutor::kServices = {
    sizeof(simpler_kernel_services),
    [](const simpler_kernel_context *) { yield_cpu(); },
    [](const simpler_kernel_context *) { return now_ns(); },
    &CoreExecutor::fail,
    &CoreExecutor::log,
};

CoreExecutor::CoreExecutor(uint32_t chip, Outbox &outbox) {
  call_.outbox = &outbox;
  call_.context.struct_size = sizeof(simpler_kernel_context);
  call_.context.services = &kServices;
  call_.context.chip = chip;
}

void CoreExecutor::enter_core(CoreRegisters &registers, const CoreIdentity &identity) {
  registers_ = &registers;
  call_.context.core_id = identity.physical_id;
  call_.context.core_type = identity.type;
  call_.context.cluster = identity.cluster;
  call_.context.position = identity.position;
}

bool CoreExecutor::execute(const graph::TaskSlot &task, TaskPayload &payload) {
  CoreRegisters &core = *registers_;
  const uint64_t word = core.task_word.load(std::memory_order_acquire);  // the task's fields are published by it
  core.condition.store(CoreCondition::kBusy, std::memory_order_relaxed);
  core.acknowledgement.store(word, std::memory_order_release);  // busy is seen before the acknowledgement
  call_.context.task = task.id;
  call_.context.block_index = core.block.load(std::memory_order_relaxed);
  call_.context.block_count = payload.block_count;
  call_.failed = false;
  try {
    payload.kernel().function(&call_.context, &payload.args);
  } catch (...) {
    fail_by_exception();
  }
  core.condition.store(CoreCondition::kIdle, std::memory_order_release);  // what the kernel wrote is seen before that
  return !call_.failed;
}

CoreExecutor::Call &CoreExecutor::call_of(const simpler_kernel_context *context) {
  // The context is the first member of a Call, and only the executor makes contexts.
  static_assert(offsetof(Call, context) == 0);
  return *reinterpret_cast<Call *>(const_cast<simpler_kernel_context *>(context));
}

void CoreExecutor::fail(const simpler_kernel_context *context, int32_t code, const char *text) {
  if (context == nullptr) return;
  Call &call = call_of(context);
  if (call.failed) return;  // the first call counts
  call.failed = true;
  call.failure.code = code;
  try {
    call.failure.text = std::string_view(text != nullptr ? text : "").substr(0, control::kLogTextBytesMax);
  } catch (...) {  // out of memory: the code must do
    call.failure.text.clear();
  }
}

void CoreExecutor::log(const simpler_kernel_context *context, simpler_log_level level, const char *text) {
  if (context != nullptr && text != nullptr) call_of(context).outbox->log(level, text);
}

void CoreExecutor::fail_by_exception() {
  std::string text;
  try {
    throw;
  } catch (const std::exception &error) {
    text = fmt::format("exception: {}", error.what());
  } catch (...) {
    text = "exception of a type that is no std::exception";
  }
  fail(&call_.context, 0, text.c_str());
}

}  // namespace simpler::chip
