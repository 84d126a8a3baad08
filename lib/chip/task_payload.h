// What a task carries from its submit to the core: kernels, arguments, blocks, label. Lies in the payload ring of the graph engine, from
// `open` until the task retires.
//
// Written by the orchestrator before the task is committed, read by executors afterwards; only `SpmdState` changes then. One cache line
// of fixed fields, then, as needed: SpmdState, Predicate, tensors, scalars, zero ranges, label.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "chip/callable_table.h"
#include "chip/element.h"
#include "graph/task_slot.h"
#include "simpler/device.h"

namespace simpler::chip {

// Bytes that must be zero before the first kernel of the task sees them.
struct ZeroRange {
  std::byte *data;
  uint64_t bytes;
};

// Only in tasks of several kernel calls: several blocks, or several parts.
struct alignas(8) SpmdState {
  uint32_t next_block = 0;              // first block that nobody has taken; under the lock of the list that the task is in
  std::atomic<bool> failed{false};      // some call failed; published by calls_left
  std::atomic<bool> cancelled{false};   // some call was not made, or ended by the end of the run; likewise
  std::atomic<uint32_t> calls_left{0};  // calls that have not returned; who brings it to 0 completes the task
};

// Only in tasks with one.
struct Predicate {
  ElementPlace element;
  simpler_dtype dtype;
  simpler_compare compare;
  uint64_t constant;
};

struct TaskPayload {
  static constexpr uint8_t kSyncStart = 1;
  static constexpr uint8_t kPredicated = 2;
  static constexpr uint8_t kSeveralCalls = 4;  // several blocks or parts: there is a SpmdState

  const Kernel *kernels[3];  // by position: AIC, AIV0, AIV1; the callable outlives the run
  simpler_args args;
  uint32_t block_count;
  uint32_t ordinal;  // number of the task in its run, to find the oldest
  uint16_t zero_count;
  uint8_t shape;          // bit per position whose kernel is set; 0: the task only carries dependencies
  uint8_t flags;          // kSyncStart, ...
  uint32_t label_offset;  // from here; 0: no label

  bool has_several_calls() const { return (flags & kSeveralCalls) != 0; }
  SpmdState &spmd() { return *std::launder(reinterpret_cast<SpmdState *>(this + 1)); }
  Predicate &predicate() {
    auto *at = reinterpret_cast<std::byte *>(this + 1) + (has_several_calls() ? sizeof(SpmdState) : 0);
    return *std::launder(reinterpret_cast<Predicate *>(at));
  }
  ZeroRange *zero_ranges() {
    return reinterpret_cast<ZeroRange *>(const_cast<uint64_t *>(args.scalars) + args.scalar_count);
  }
  const char *label() const { return label_offset != 0 ? reinterpret_cast<const char *>(this) + label_offset : nullptr; }
  // The one kernel of a task that is not a MIX.
  const Kernel &kernel() const { return *kernels[shape == 1 ? 0 : shape == 2 ? 1 : 2]; }
};
static_assert(sizeof(TaskPayload) == 64);
static_assert(sizeof(simpler_tensor) % 8 == 0 && sizeof(SpmdState) % 8 == 0 && sizeof(Predicate) % 8 == 0);

inline TaskPayload &payload_of(const graph::TaskSlot &slot) { return *static_cast<TaskPayload *>(slot.payload); }

}  // namespace simpler::chip
