// What a task carries from its submit to the core: kernels, arguments, blocks, label. Lies in the payload ring of the graph engine, from
// `open` until the task retires.
//
// Written by the orchestrator before the task is committed, read by executors afterwards; only `SpmdState` changes then. One cache line
// of fixed fields, then, as needed: SpmdState, tensors, scalars, zero ranges, label.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "chip/callable_table.h"
#include "graph/task_slot.h"
#include "simpler/device.h"

namespace simpler::chip {

// Bytes that must be zero before the first kernel of the task sees them.
struct ZeroRange {
  std::byte *data;
  uint64_t bytes;
};

// Only in tasks of several blocks.
struct alignas(8) SpmdState {            // tensors follow
  uint32_t next_block = 0;               // first block that nobody has taken; under the scheduler's lock
  std::atomic<bool> failed{false};       // some block failed; published by blocks_left
  std::atomic<uint32_t> blocks_left{0};  // blocks that have not returned; who brings it to 0 completes the task
};

struct TaskPayload {
  const Kernel *kernels[3];  // by position: AIC, AIV0, AIV1; the callable outlives the run
  simpler_args args;
  uint32_t block_count;
  uint32_t ordinal;  // number of the task in its run, to find the oldest
  uint16_t zero_count;
  uint16_t shape;         // bit per position whose kernel is set; 0: the task only carries dependencies
  uint32_t label_offset;  // from here; 0: no label

  SpmdState &spmd() { return *std::launder(reinterpret_cast<SpmdState *>(this + 1)); }
  ZeroRange *zero_ranges() {
    return reinterpret_cast<ZeroRange *>(const_cast<uint64_t *>(args.scalars) + args.scalar_count);
  }
  const char *label() const { return label_offset != 0 ? reinterpret_cast<const char *>(this) + label_offset : nullptr; }
  // The one kernel of a task that is not a MIX.
  const Kernel &kernel() const { return *kernels[shape == 1 ? 0 : shape == 2 ? 1 : 2]; }
};
static_assert(sizeof(TaskPayload) == 64);
static_assert(sizeof(simpler_tensor) % 8 == 0 && sizeof(SpmdState) % 8 == 0);

inline TaskPayload &payload_of(const graph::TaskSlot &slot) { return *static_cast<TaskPayload *>(slot.payload); }

}  // namespace simpler::chip
