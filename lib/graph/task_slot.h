// A node of the graph: one slot of a task ring. Fixed memory, reused for task after task, never freed while the engine lives.
//
// Who touches what:
//   shared line     submitter and completers, by the atomic operations described in engine.cpp
//   reader line     written by the submitter before the task is committed; read by executors afterwards (the hand-over of
//                   the ready task orders that)
//   submitter line  the submitter alone
#pragma once

#include <atomic>
#include <cstdint>

namespace simpler::graph {

using TaskId = uint64_t;  // depth of the ring in the top 12 bits, sequence number (from 1) below; 0: no task

enum class Outcome : uint8_t { kDone = 0, kFailed = 1, kSkipped = 2, kCancelled = 3 };

struct TaskSlot;

// "consumer waits for the task in whose fan-out list this stands", or, in a hold list, "this slot's memory is kept alive".
struct Edge {
  Edge *next = nullptr;            // in the fan-out list (shared) or hold list
  TaskSlot *slot = nullptr;        // consumer, or owner held
  Edge *next_overflow = nullptr;   // submitter only: overflow edges of one consumer, to be given back with its slot
};

inline constexpr uint32_t kInlineEdges = 2;
inline constexpr uint32_t kInlineHolds = 3;

struct alignas(64) TaskSlot {
  // ---- shared line
  std::atomic<Edge *> fan_out{nullptr};   // consumers; closed_fan_out() once the task has ended
  std::atomic<int32_t> pending{0};        // producers that have not ended, plus kPendingBias until commit
  std::atomic<int32_t> references{0};     // self, open scope (if it owns memory), consumers that use its memory; 0: retired
  std::atomic<bool> poisoned{false};      // a producer failed: to be skipped. Set before that producer's decrement of pending
  std::atomic<Outcome> outcome{Outcome::kDone};  // valid once fan_out is closed
  TaskSlot *next_ready = nullptr;         // belongs to whoever holds the chain that the slot is in
  Edge *holds = nullptr;                  // overflow of inline_holds, see there

  // ---- reader line
  alignas(64) TaskId id = 0;
  void *payload = nullptr;
  uint32_t payload_bytes = 0;
  uint32_t hold_count = 0;
  TaskSlot *inline_holds[kInlineHolds] = {};  // owners whose memory the task uses; released by its completer

  // ---- submitter line
  alignas(64) uint64_t payload_end = 0;   // positions in the rings of bytes up to which this slot and older ones reach
  uint64_t heap_end = 0;
  TaskId last_consumer = 0;               // newest task that depends on this one: counts an edge once
  TaskId last_holder = 0;                 // newest task that holds this one's memory
  TaskSlot *next_in_scope = nullptr;      // tasks that the scope holds
  Edge *overflow = nullptr;               // edges from the pool, as consumer
  uint32_t edge_count = 0;                // inline edges used, as consumer
  int32_t dependencies = 0;               // edges that were attached
  bool owns_memory = false;
  bool scope_open = false;                // its scope holds it: it cannot retire yet

  Edge edges[kInlineEdges];
};
static_assert(sizeof(TaskSlot) == 256, "the memory target per live task");

}  // namespace simpler::graph
