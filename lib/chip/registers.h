// The register block of one simulated AICore, as hardware has it: what the AICPU writes and what the core writes, on cache lines of
// their own.
//
// States of a core (register `condition`, written by the core alone):
//
//   kOff ──start seen, type and physical id reported──► kReported ──acknowledged by the AICPU──► kIdle
//   kIdle ──task word taken──► kBusy ──kernel returned──► kIdle          kIdle ──exit request seen──► kExited
//
// A dispatch is: AICPU writes `task`, `block`, then `task_word` (release); the core reads `task_word` (acquire), sets kBusy and
// echoes the word in `acknowledgement`, runs the kernel, and sets kIdle (release). A task word is a count, so that two dispatches of
// one task never look alike and an old acknowledgement never answers a new word.
//
// Who may touch a block: the AICPU's part, whoever holds the core (core_pool.h); the core's part, the carrier that lends it time,
// which is the same thread. The fields are atomics all the same: they are how another thread (hang reports, a core with a thread of
// its own) looks at a core, and each order below is what such a peer needs.
#pragma once

#include <atomic>
#include <cstdint>

namespace simpler::chip {

enum class CoreCondition : uint32_t {
  kOff = 0,
  kReported = 1,
  kIdle = 2,
  kBusy = 3,
  kExited = 4
};
enum class CoreControl : uint32_t {
  kNone = 0,
  kStart = 1,
  kAcknowledged = 2,
  kExit = 3
};

struct CoreRegisters {
  // ---- written by the AICPU
  alignas(64) std::atomic<CoreControl> control{CoreControl::kNone};  // release; the core acquires it
  std::atomic<uint32_t> block{0};                                    // published by task_word
  std::atomic<uint64_t> task{0};                                     // id of the task, for reports; published by task_word
  std::atomic<uint64_t> task_word{0};                                // release; the core acquires it

  // ---- written by the core
  alignas(64) std::atomic<CoreCondition> condition{CoreCondition::kOff};  // release; the AICPU acquires it
  std::atomic<uint32_t> core_type{0};                                     // published by condition == kReported
  std::atomic<uint32_t> physical_id{0};                                   // published by condition == kReported
  std::atomic<uint64_t> acknowledgement{0};                               // release; equals task_word once it is taken

  // AICPU, before the handshake: nothing of an earlier life of the core may be left.
  void clear() {
    control.store(CoreControl::kNone, std::memory_order_relaxed);
    block.store(0, std::memory_order_relaxed);
    task.store(0, std::memory_order_relaxed);
    task_word.store(0, std::memory_order_relaxed);
    core_type.store(0, std::memory_order_relaxed);
    physical_id.store(0, std::memory_order_relaxed);
    acknowledgement.store(0, std::memory_order_relaxed);
    condition.store(CoreCondition::kOff, std::memory_order_release);
  }
};
static_assert(sizeof(CoreRegisters) == 128);

}  // namespace simpler::chip
