// A node of the graph: one slot of a task ring. Fixed memory, reused for task after task, never freed while the engine lives.
//
// Who touches what, one cache line each, because lines that move between CPUs are what a task costs:
//   shared line     submitter and completers, by the atomic operations described in engine.cpp
//   reader line     written by the submitter before the task is committed; read by executors afterwards (the hand-over of
//                   the ready task orders that)
//   submitter line  the submitter alone
//   edge line       as the reader line; touched by tasks with more than two producers only
#pragma once

#include <atomic>
#include <cstdint>

namespace simpler::graph {

using TaskId = uint64_t;  // depth of the ring in the top 12 bits, sequence number (from 1) below; 0: no task

enum class Outcome : uint8_t {
  kDone = 0,
  kFailed = 1,
  kSkipped = 2,
  kCancelled = 3
};

struct TaskSlot;

// "`slot` waits for the task in whose fan-out list this stands", or, in a list of holds, "the memory of `slot` is kept alive".
// Written by the submitter before it is published; read by the completer that walks the list.
struct Edge {
  Edge *next;
  TaskSlot *slot;
};

// An edge beyond the inline ones, from the submitter's pool. `next_overflow` is the submitter's: the list by which the edges
// are given back with their consumer's slot.
struct PoolEdge : Edge {
  PoolEdge *next_overflow;
};

inline constexpr uint32_t kInlineEdges = 5;
inline constexpr uint32_t kInlineHolds = 3;

struct alignas(64) TaskSlot {
  // ---- shared line
  std::atomic<Edge *> fan_out;      // consumers; closed_fan_out() once the task has ended
  std::atomic<int32_t> pending;     // producers that have not ended, plus kPendingBias until commit
  std::atomic<int32_t> references;  // open scope (if it owns memory), tasks that use its memory; 0 and ended: retired
  TaskSlot *next_ready;             // belongs to whoever holds the chain that the slot is in
  Edge *more_holds;                 // beyond inline_holds; written before commit, read by the task's completer
  Edge first_edge;
  uint32_t hold_count;           // as more_holds
  std::atomic<bool> poisoned;    // a producer failed: to be skipped. Set before that producer's decrement of pending
  std::atomic<Outcome> outcome;  // valid once fan_out is closed
  TaskId last_consumer;  // newest task that depends on this one: counts an edge once. The submitter's alone; it stands
                         // here because the submitter needs this line then anyway

  // ---- reader line
  alignas(64) TaskId id;
  void *payload;
  uint32_t payload_bytes;
  TaskSlot *holds[kInlineHolds];  // owners whose memory the task uses; released by its completer
  Edge second_edge;

  // ---- submitter line
  alignas(64) uint64_t payload_end;  // positions in the rings of bytes up to which this slot and older ones reach
  uint64_t heap_end;
  TaskId last_holder;       // newest task that holds this one's memory
  TaskSlot *next_in_scope;  // tasks that the scope holds
  PoolEdge *overflow;       // edges from the pool
  uint32_t edge_count;      // inline edges used, as consumer
  int32_t dependencies;     // edges that were attached
  bool scope_open;          // it owns memory that its scope still holds: it cannot retire yet

  // ---- edge line
  alignas(64) Edge other_edges[kInlineEdges - 2];
};
static_assert(sizeof(TaskSlot) == 256, "the memory target per live task");

}  // namespace simpler::graph
