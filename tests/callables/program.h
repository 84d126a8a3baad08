// A random program as data: what the orchestration of program.cpp interprets, what tests/seeded generates, and what both compute
// with.
//
// Words of 64 bits: the number of operations, then the operations. Memory is numbered: 0 and 1 are the arenas (tensors 0 and 1 of
// the run), then every allocation and OUTPUT in the order in which they are made. All sizes are bytes.
//
//   kScopeBegin  mode
//   kScopeEnd
//   kAlloc       bytes, fill (256: none)
//   kRead        memory, offset, dtype               its value goes into the state of the program
//   kWrite       memory, offset, dtype               writes the state of the program
//   kTask        number, shape (a bit per position), blocks, flags, fails, after count, task numbers (from 1) ...,
//                predicate (0: none; compare), [memory, offset, dtype, constant],
//                views, each: memory (kNewMemory: an OUTPUT), tag, dtype, offset, rank, shape[2], strides[2]
#pragma once

#include <cstdint>
#include <vector>

#include "simpler/device.h"

namespace program {

enum Operation : uint64_t {
  kScopeBegin = 1,
  kScopeEnd,
  kAlloc,
  kRead,
  kWrite,
  kTask
};

inline constexpr uint64_t kNewMemory = UINT64_MAX;
inline constexpr uint64_t kNoFill = 256;
inline constexpr uint64_t kArenaBytes = 512;
inline constexpr uint64_t kTasksMax = 128;

// Words of the log (tensor 2 of the run): operations done, a clock, then per task when it first began and last ended.
enum LogWord : uint64_t {
  kOperationsDone = 0,
  kClock = 1,
  kBegin = 2,
  kEnd = kBegin + kTasksMax + 1,
  kLogWords = kEnd + kTasksMax + 1
};

inline bool reads(simpler_tag tag) { return tag == SIMPLER_TAG_INPUT || tag == SIMPLER_TAG_INOUT; }
inline bool writes(simpler_tag tag) { return tag != SIMPLER_TAG_INPUT && tag != SIMPLER_TAG_NO_DEP; }

// visit(byte, number of the byte in the view)
template <class Visit>
void for_each_byte(const simpler_tensor &t, Visit visit) {
  const uint64_t bytes = simpler_dtype_bits(t.dtype) / 8;
  uint64_t index[SIMPLER_RANK_MAX] = {};
  uint64_t number = 0;
  if (simpler_tensor_elements(&t) == 0) return;
  for (;;) {
    uint64_t offset = 0;
    for (uint32_t i = 0; i < t.rank; i++) offset += index[i] * t.strides[i];
    for (uint64_t b = 0; b < bytes; b++) visit(static_cast<uint8_t *>(t.data) + offset * bytes + b, number++);
    uint32_t axis = t.rank;
    while (axis > 0 && ++index[axis - 1] == t.shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

struct Use {
  simpler_tensor view;
  simpler_tag tag;
};

// Part `part` of `parts` of a task: reads every byte of its inputs, and writes its share of what it writes, values that depend on
// all inputs.
template <class Uses>
void work(uint64_t number, uint64_t state, const Uses &uses, uint64_t part, uint64_t parts) {
  auto sum = static_cast<uint8_t>(number * 37 + 11 + state);
  for (const Use &use : uses) {
    if (use.tag == SIMPLER_TAG_INPUT)
      for_each_byte(use.view, [&](const uint8_t *byte, uint64_t) { sum = static_cast<uint8_t>(sum * 31 + *byte); });
  }
  for (const Use &use : uses) {
    if (!writes(use.tag)) continue;
    for_each_byte(use.view, [&](uint8_t *byte, uint64_t i) {
      if (i % parts != part) return;
      const uint64_t old = use.tag == SIMPLER_TAG_INOUT ? *byte * uint64_t{5} : 0;
      *byte = static_cast<uint8_t>(old + sum + i * 7 + 1);
    });
  }
}

inline uint64_t next_state(uint64_t state, uint64_t value) { return (state ^ value) * 0x9e3779b97f4a7c15u + 1; }

// A view of `memory`, of bytes, as the nine words of a task's view say.
inline simpler_tensor view_of(const simpler_tensor &memory, const uint64_t *words) {
  simpler_tensor view = memory;
  view.dtype = static_cast<simpler_dtype>(words[2]);
  view.data = static_cast<uint8_t *>(memory.data) + words[3];
  view.rank = static_cast<uint32_t>(words[4]);
  for (uint64_t i = 0; i < 2; i++) {
    view.shape[i] = words[5 + i];
    view.strides[i] = words[7 + i];
  }
  return view;
}
inline constexpr uint64_t kViewWords = 9;

inline simpler_tensor element_of(const simpler_tensor &memory, uint64_t offset, uint64_t dtype) {
  const uint64_t words[kViewWords] = {0, 0, dtype, offset, 1, 1, 1, 1, 1};
  return view_of(memory, words);
}

}  // namespace program
