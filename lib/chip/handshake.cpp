#include "chip/handshake.h"

#include <vector>

#include "base/error.h"

namespace simpler::chip {

bool step_core(CoreRegisters &registers, const CoreIdentity &identity) {
  const CoreCondition condition = registers.condition.load(std::memory_order_relaxed);  // our own register
  switch (registers.control.load(std::memory_order_acquire)) {
    case CoreControl::kStart:
      if (condition != CoreCondition::kOff) return false;
      registers.core_type.store(identity.type, std::memory_order_relaxed);
      registers.physical_id.store(identity.physical_id, std::memory_order_relaxed);
      registers.condition.store(CoreCondition::kReported, std::memory_order_release);  // publishes type and id
      return true;
    case CoreControl::kAcknowledged:
      if (condition != CoreCondition::kReported) return false;
      registers.condition.store(CoreCondition::kIdle, std::memory_order_release);
      return true;
    case CoreControl::kExit:
      if (condition == CoreCondition::kExited || condition == CoreCondition::kBusy) return false;
      registers.condition.store(CoreCondition::kExited, std::memory_order_release);
      return true;
    case CoreControl::kNone:
      return false;
  }
  return false;
}

void begin_start(std::span<CoreRegisters> registers) {
  // All blocks are cleared before the first core is started: a core must never see what its neighbour's last life left.
  for (CoreRegisters &core : registers) core.clear();
  for (CoreRegisters &core : registers) core.control.store(CoreControl::kStart, std::memory_order_release);
}

void check_reports(std::span<const CoreRegisters> registers, const Geometry &geometry) {
  SIMPLER_ASSERT(registers.size() == geometry.cores());
  std::vector<bool> seen;
  for (uint32_t i = 0; i < registers.size(); i++) {
    const CoreIdentity expected = geometry.core(i);
    const uint32_t type = registers[i].core_type.load(std::memory_order_relaxed);
    const uint32_t id = registers[i].physical_id.load(std::memory_order_relaxed);
    if (type != expected.type || id != expected.physical_id)
      throw_error(SIMPLER_INTERNAL, "core {}: reported type {} and physical id {}, expected {} and {}", i, type, id,
                  expected.type, expected.physical_id);
    if (id >= seen.size()) seen.resize(id + 1);
    if (seen[id]) throw_error(SIMPLER_INTERNAL, "core {}: physical id {} was reported twice", i, id);
    seen[id] = true;
  }
}

void throw_no_answer(uint32_t core, CoreCondition wanted, CoreCondition found) {
  throw_error(SIMPLER_INTERNAL, "core {} does not answer: its condition is {}, {} was awaited", core,
              static_cast<uint32_t>(found), static_cast<uint32_t>(wanted));
}

}  // namespace simpler::chip
