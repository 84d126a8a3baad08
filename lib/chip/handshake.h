// Start-up and shut-down of the simulated cores: the AICPU's half and the core's half.
//
// The AICPU clears all register blocks first, then starts the cores; each core reports its type and physical id; the AICPU checks
// that they are as the geometry says and unique, and acknowledges. Shut-down is an exit request and the core's condition kExited.
//
// A core has no thread of its own. While the chip starts or ends, no carrier runs, and the thread that does the AICPU's half lends its
// time to the cores: `step` is what it calls in place of waiting. Nothing can therefore hang here.
#pragma once

#include <cstdint>
#include <span>

#include "chip/geometry.h"
#include "chip/registers.h"

namespace simpler::chip {

// The core's half: handles what is pending in `registers` for the core `identity`, if anything. Returns whether something was.
bool step_core(CoreRegisters &registers, const CoreIdentity &identity);

// The AICPU's half. `step(index)` lets core `index` run; it is called until the core has answered, at most kStepsMax times. Throws
// INTERNAL naming the core when an answer is wrong or missing.
inline constexpr uint32_t kStepsMax = 1'000'000;
template <class Step>
void start_cores(std::span<CoreRegisters> registers, const Geometry &geometry, Step &&step);
template <class Step>
void stop_cores(std::span<CoreRegisters> registers, Step &&step);

// ---- implementation of the templates

void begin_start(std::span<CoreRegisters> registers);
void check_reports(std::span<const CoreRegisters> registers, const Geometry &geometry);
[[noreturn]] void throw_no_answer(uint32_t core, CoreCondition wanted, CoreCondition found);

template <class Step>
void await_condition(std::span<CoreRegisters> registers, CoreCondition wanted, Step &&step) {
  for (uint32_t i = 0; i < registers.size(); i++) {
    uint32_t steps = 0;
    while (registers[i].condition.load(std::memory_order_acquire) != wanted) {
      if (++steps > kStepsMax) throw_no_answer(i, wanted, registers[i].condition.load(std::memory_order_relaxed));
      step(i);
    }
  }
}

template <class Step>
void start_cores(std::span<CoreRegisters> registers, const Geometry &geometry, Step &&step) {
  begin_start(registers);
  await_condition(registers, CoreCondition::kReported, step);
  check_reports(registers, geometry);
  for (CoreRegisters &core : registers) core.control.store(CoreControl::kAcknowledged, std::memory_order_release);
  await_condition(registers, CoreCondition::kIdle, step);
}

template <class Step>
void stop_cores(std::span<CoreRegisters> registers, Step &&step) {
  for (CoreRegisters &core : registers) core.control.store(CoreControl::kExit, std::memory_order_release);
  await_condition(registers, CoreCondition::kExited, step);
}

}  // namespace simpler::chip
