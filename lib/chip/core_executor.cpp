#include "chip/core_executor.h"

#include <exception>

#include "base/clock.h"
#include "base/wait.h"
#include "chip/element.h"
#include "control/link.h"

namespace simpler::chip {

namespace {

// How long a wait for a signal may take to notice a plain store, or that the run is over, of which nobody tells it.
constexpr uint64_t kLivenessNs = 20'000'000;

const char *position_name(uint32_t position) {
  return position == SIMPLER_POSITION_AIC ? "AIC" : position == SIMPLER_POSITION_AIV0 ? "AIV0" : "AIV1";
}

}  // namespace

const simpler_kernel_services CoreExecutor::kServices = {
    sizeof(simpler_kernel_services),
    [](const simpler_kernel_context *) { yield_cpu(); },
    [](const simpler_kernel_context *) { return now_ns(); },
    &CoreExecutor::fail,
    &CoreExecutor::log,
    &CoreExecutor::barrier,
    &CoreExecutor::push,
    &CoreExecutor::pop,
    [](const simpler_kernel_context *context, uint64_t *signal, uint64_t value) {
      if (check_signal(context, signal, "simpler_kernel_signal_set"))
        call_of(context).environment->signals.set(signal, value);
    },
    [](const simpler_kernel_context *context, uint64_t *signal, uint64_t value) -> uint64_t {
      if (!check_signal(context, signal, "simpler_kernel_signal_add")) return 0;
      return call_of(context).environment->signals.add(signal, value);
    },
    &CoreExecutor::signal_wait,
    &CoreExecutor::complete_when,
};

CoreExecutor::CoreExecutor(const KernelEnvironment &environment) {
  call_.environment = &environment;
  call_.context.struct_size = sizeof(simpler_kernel_context);
  call_.context.services = &kServices;
  call_.context.chip = environment.chip;
}

void CoreExecutor::enter_core(CoreRegisters &registers, const CoreIdentity &identity) {
  registers_ = &registers;
  call_.context.core_id = identity.physical_id;
  call_.context.core_type = identity.type;
  call_.context.cluster = identity.cluster;
  call_.context.position = identity.position;
}

graph::Outcome CoreExecutor::execute(const graph::TaskSlot &task, TaskPayload &payload, const Kernel &kernel, Cohort *cohort,
                                     uint32_t member) {
  CoreRegisters &core = *registers_;
  const uint64_t word = core.task_word.load(std::memory_order_acquire);  // the task's fields are published by it
  core.condition.store(CoreCondition::kBusy, std::memory_order_relaxed);
  core.acknowledgement.store(word, std::memory_order_release);  // busy is seen before the acknowledgement
  call_.context.task = task.id;
  call_.context.block_index = core.block.load(std::memory_order_relaxed);
  call_.context.block_count = payload.block_count;
  call_.payload = &payload;
  call_.cohort = cohort;
  call_.member = member;
  call_.failed = call_.cancelled = false;
  try {
    kernel.function(&call_.context, &payload.args);
  } catch (...) {
    fail_by_exception();
  }
  core.condition.store(CoreCondition::kIdle, std::memory_order_release);  // what the kernel wrote is seen before that
  return call_.failed ? graph::Outcome::kFailed : call_.cancelled ? graph::Outcome::kCancelled : graph::Outcome::kDone;
}

CoreExecutor::Call &CoreExecutor::call_of(const simpler_kernel_context *context) {
  // The context is the first member of a Call, and only the executor makes contexts.
  static_assert(offsetof(Call, context) == 0);
  return *reinterpret_cast<Call *>(const_cast<simpler_kernel_context *>(context));
}

// ---- failing --------------------------------------------------------------------------------------------------------

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

simpler_status CoreExecutor::refuse(Call &call, simpler_status status, const std::string &text) {
  fail(&call.context, 0, text.c_str());
  return status;
}

void CoreExecutor::log(const simpler_kernel_context *context, simpler_log_level level, const char *text) {
  if (context != nullptr && text != nullptr) call_of(context).environment->outbox->log(level, text);
}

// ---- working together -----------------------------------------------------------------------------------------------

simpler_status CoreExecutor::end_wait(Call &call, Cohort::Wait wait, const char *function, const char *reason) {
  if (wait == Cohort::Wait::kDone) return SIMPLER_OK;
  if (wait == Cohort::Wait::kPeerLeft)
    return refuse(call, SIMPLER_KERNEL_FAILED, fmt::format("{} waits for what can never come: {}", function, reason));
  call.cancelled = true;
  return SIMPLER_CANCELLED;
}

simpler_status CoreExecutor::barrier(const simpler_kernel_context *context) {
  constexpr const char *kFunction = "simpler_kernel_barrier";
  if (context == nullptr) return SIMPLER_INVALID_ARGUMENT;
  Call &call = call_of(context);
  if (call.cohort == nullptr) {
    if (call.payload->block_count == 1) return SIMPLER_OK;
    return refuse(
        call, SIMPLER_NOT_SUPPORTED,
        fmt::format("{}: a task of {} blocks without SIMPLER_TASK_SYNC_START: its blocks need not run at the same time",
                    kFunction, call.payload->block_count));
  }
  return end_wait(call, call.cohort->barrier(call.environment->is_over), kFunction,
                  "another kernel of the task has returned without a call of it");
}

simpler_status CoreExecutor::check_peer(Call &call, uint32_t position, const char *function) {
  if (position <= SIMPLER_POSITION_AIV1 && position != call.context.position &&
      (call.payload->shape & 1u << position) != 0 && call.cohort != nullptr)
    return SIMPLER_OK;
  return refuse(call, SIMPLER_INVALID_ARGUMENT,
                fmt::format("{}: position is {}: {}", function, position,
                            position > SIMPLER_POSITION_AIV1    ? "0 (AIC), 1 (AIV0) and 2 (AIV1) exist"
                            : position == call.context.position ? "that is the kernel's own"
                                                                : "the task has no kernel there"));
}

simpler_status CoreExecutor::push(const simpler_kernel_context *context, uint32_t position, uint64_t word) {
  constexpr const char *kFunction = "simpler_kernel_push";
  if (context == nullptr) return SIMPLER_INVALID_ARGUMENT;
  Call &call = call_of(context);
  if (const simpler_status status = check_peer(call, position, kFunction); status != SIMPLER_OK) return status;
  return end_wait(call, call.cohort->push(call.member, position, word, call.environment->is_over), kFunction,
                  fmt::format("the FIFO is full and the kernel on {} has returned", position_name(position)).c_str());
}

simpler_status CoreExecutor::pop(const simpler_kernel_context *context, uint32_t position, uint64_t *word) {
  constexpr const char *kFunction = "simpler_kernel_pop";
  if (context == nullptr) return SIMPLER_INVALID_ARGUMENT;
  Call &call = call_of(context);
  if (word == nullptr) return refuse(call, SIMPLER_INVALID_ARGUMENT, fmt::format("{}: word is NULL", kFunction));
  *word = 0;
  if (const simpler_status status = check_peer(call, position, kFunction); status != SIMPLER_OK) return status;
  return end_wait(call, call.cohort->pop(call.member, position, word, call.environment->is_over), kFunction,
                  fmt::format("the FIFO is empty and the kernel on {} has returned", position_name(position)).c_str());
}

bool CoreExecutor::check_signal(const simpler_kernel_context *context, const uint64_t *signal, const char *function) {
  if (context == nullptr) return false;
  if (signal != nullptr && reinterpret_cast<uintptr_t>(signal) % alignof(uint64_t) == 0) return true;
  const char *reason = signal == nullptr ? "signal is NULL" : "signal is not aligned to 8 bytes";
  refuse(call_of(context), SIMPLER_INVALID_ARGUMENT, fmt::format("{}: {}", function, reason));
  return false;
}

simpler_status CoreExecutor::signal_wait(const simpler_kernel_context *context, const uint64_t *signal,
                                         simpler_compare compare, uint64_t value) {
  constexpr const char *kFunction = "simpler_kernel_signal_wait";
  if (!check_signal(context, signal, kFunction)) return SIMPLER_INVALID_ARGUMENT;
  Call &call = call_of(context);
  if (!is_comparison(compare))
    return refuse(call, SIMPLER_INVALID_ARGUMENT, fmt::format("{}: compare is {}; 1 to 6 exist", kFunction, compare));
  const KernelEnvironment &environment = *call.environment;
  const auto holds = [&] { return compare_words(Signals::load(signal), compare, value, SIMPLER_DTYPE_UINT64); };
  const auto is_enough = [&] { return holds() || environment.is_over(); };
  Doorbell &bell = environment.signals.bell(signal);
  PollBudget budget;
  if (!bell.wait(0, budget, is_enough)) {  // the time of the deadline is past: polls, does not sleep
    const CarrierPool::Absence absence(call.carriers);
    bell.wait(kForever, budget, is_enough, kLivenessNs);
  }
  return end_wait(call, holds() ? Cohort::Wait::kDone : Cohort::Wait::kOver, kFunction, "");
}

simpler_status CoreExecutor::complete_when(const simpler_kernel_context *context, const uint64_t *signal, uint64_t value) {
  constexpr const char *kFunction = "simpler_kernel_complete_when";
  if (!check_signal(context, signal, kFunction)) return SIMPLER_INVALID_ARGUMENT;
  Call &call = call_of(context);
  try {
    call.environment->deferred->add(call.context.task, signal, value);
    return SIMPLER_OK;
  } catch (...) {
    fail(context, 0, "simpler_kernel_complete_when: out of memory");
    return SIMPLER_OUT_OF_MEMORY;
  }
}

}  // namespace simpler::chip
