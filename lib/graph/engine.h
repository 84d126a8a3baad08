// The graph engine: task rings, heap rings, dependency inference, scopes, fan-out, failure propagation, back-pressure, drain.
//
// One *submitter* thread builds the graph, task by task:
//
//   TaskSlot *task = engine.open(payload_bytes, outputs_bytes, blocks);   // may wait for room; null once stopped
//   engine.access(*task, view, tag);  engine.after(*task, id);            // what it must wait for
//   if (engine.commit(*task)) run_it_somewhere(task);                     // ready at once
//
// Any number of *completers* end tasks: `ready = engine.complete(*task, outcome)` returns the tasks that became ready, oldest
// first, linked by next_ready. The engine starts no thread and calls nobody but the two functions of its options.
//
// The rules that keep it sound
// - A slot is retired when its task has ended and nobody uses its memory any more; ending it is the last thing that a completer
//   does with the slot. Only the submitter reuses slots, in ring order, so rings need no lock.
// - An edge is attached with one compare-and-swap on the producer's fan-out list; ending a task closes the list with one
//   exchange. Whoever comes later finds it closed and takes the producer as ended.
// - Edges lead from later tasks to earlier ones only. So the oldest task that has not ended can always run, and the submitter
//   can be blocked for good only by itself: when the oldest slot of the full ring is held by a scope that is still open. That
//   is looked up, not timed: it fails at once with DEADLOCK_*.
//
// The engine must outlive every call of `complete`; join the completers before destroying it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "base/wait.h"
#include "graph/byte_ring.h"
#include "graph/task_slot.h"
#include "graph/tensor_map.h"
#include "simpler/device.h"

namespace simpler::graph {

// Scopes may nest this deep; each depth has rings of its own.
inline constexpr uint32_t kDepthMax = 4095;
inline constexpr unsigned kSequenceBits = 52;

inline uint32_t depth_of(TaskId id) { return static_cast<uint32_t>(id >> kSequenceBits); }
inline uint64_t sequence_of(TaskId id) { return id & ((uint64_t{1} << kSequenceBits) - 1); }

enum class ScopeMode : uint8_t {
  kAuto,
  kManual
};

struct EngineOptions {
  uint32_t window = 4096;            // slots per ring; a power of two, at least 4
  uint64_t heap_bytes = 256u << 20;  // per depth; a multiple of 64
  // Zero-filled memory for the heap ring of one depth, asked for when that depth first allocates. Must outlive the engine.
  std::function<std::byte *(uint32_t depth, uint64_t bytes)> heap_memory;
  // May be empty. Called by the submitter when it has to wait: runs a ready task and returns true, or returns false.
  std::function<bool()> help;
};

struct RunLimits {
  uint32_t window = 0;      // 0: the engine's
  uint64_t heap_bytes = 0;  // 0: the engine's
};

// Memory for one OUTPUT. `zero_bytes` at its start hold bytes of an earlier run: whoever runs the task clears them first.
struct HeapBlock {
  std::byte *data = nullptr;
  uint64_t bytes = 0;
  uint64_t zero_bytes = 0;
};

struct RunStatistics {
  uint64_t submitted = 0;
  uint64_t done = 0;
  uint64_t failed = 0;
  uint64_t skipped = 0;
  uint64_t cancelled = 0;
  // Pairs of producer and consumer, also where the producer had ended already; producers that have left their slot (more than
  // a window of the engine ago in their depth) are not counted. Does not depend on timing.
  uint64_t dependencies = 0;
  uint64_t window_peak = 0;      // most slots in use in one ring
  uint64_t heap_bytes_peak = 0;  // most bytes in use in one heap ring
  uint64_t regions_peak = 0;     // entries of the tensor map
};

class Engine {
 public:
  explicit Engine(EngineOptions options);
  ~Engine();
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  // ---- submitter --------------------------------------------------------------------------------------------------

  // Everything of the run before must be retired (end_run).
  void begin_run(const RunLimits &limits);
  // Closes scopes that are still open, waits until everything submitted is retired, and checks that all counts are back to zero.
  void end_run();
  // Waits until everything submitted so far has ended and is retired, but for what open scopes hold.
  void drain();

  void scope_begin(ScopeMode mode);  // throws CAPACITY_WINDOW beyond kDepthMax
  void scope_end();                  // at least one scope is open
  uint32_t scope_depth() const { return static_cast<uint32_t>(scopes_.size()); }
  bool in_manual_scope() const { return !scopes_.empty() && scopes_.back().mode == ScopeMode::kManual; }

  // Reserves a slot, `payload_bytes` for the caller's use until the task retires, and one heap block per entry of
  // output_bytes. Waits while the rings are full. Null when the run has been stopped. Throws DEADLOCK_WINDOW, DEADLOCK_HEAP,
  // CAPACITY_HEAP, CAPACITY_ARGUMENTS; the engine then is as before the call.
  TaskSlot *open(size_t payload_bytes, std::span<const uint64_t> output_bytes, HeapBlock *outputs);
  // The task uses `view` (checked by the caller; outputs after their memory is set). Keeps the memory of view.owner alive
  // until the task retires. Throws INVALID_ARGUMENT when that owner's scope has ended.
  void access(TaskSlot &task, const simpler_tensor &view, simpler_tag tag);
  // As access with INPUT, but waits for the writers also in a manual scope.
  void access_in_any_scope(TaskSlot &task, const simpler_tensor &view);
  // Waits until every task submitted so far that writes a byte of the view, or also reads one if `readers`, has ended. False when
  // one of them did not end well, or the run was stopped. Throws as access.
  bool await(const simpler_tensor &view, bool readers);
  // The task waits for another one; one that has ended, or is of an earlier run, is satisfied. Throws INVALID_ARGUMENT when there
  // never was such a task.
  void after(TaskSlot &task, TaskId producer);
  // Publishes the task; true when it is ready now and the caller must have it run.
  bool commit(TaskSlot &task);
  // Instead of commit, after an error: the task ends without having run and is not counted. Returns a chain like complete().
  TaskSlot *abandon(TaskSlot &task);
  // Memory without a task, zeroed, owned by the returned id until the scope ends. Data null when the run has been stopped.
  HeapBlock allocate(uint64_t bytes, TaskId *owner);

  RunStatistics statistics() const;  // complete after end_run

  // ---- any thread -------------------------------------------------------------------------------------------------

  TaskSlot *complete(TaskSlot &task, Outcome outcome);
  // Ends admission: open() returns null from now on, also one that waits. Tasks that were submitted still have to be completed.
  void stop();
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

 private:
  struct Ring {
    TaskSlot *slots = nullptr;
    uint64_t mask = 0;
    uint64_t next = 1;          // sequence number of the next task
    uint64_t tail = 1;          // oldest that has not been reclaimed
    uint64_t first_of_run = 1;  // older ones are of earlier runs
    ByteRing payload;
    ByteRing heap;
    uint64_t heap_dirty = 0;  // bytes of the heap that earlier runs may have written
    uint64_t heap_fresh = 0;  // bytes that this run has handed out: [0, heap_fresh) is its own
    uint64_t window_peak = 0;
  };
  struct Scope {
    ScopeMode mode;
    TaskSlot *held;  // tasks that own memory, newest first
  };

  Ring &make_ring(uint32_t depth);
  Ring *find_ring(uint32_t depth) const { return depth < rings_.size() ? rings_[depth].get() : nullptr; }
  TaskSlot *find(TaskId id) const;   // null when the task has left its slot
  bool has_failed(TaskId id) const;  // of tasks that have left their slot
  static bool is_current(const void *context, TaskId id);

  bool has_room(const Ring &ring, uint64_t payload_bytes, uint64_t heap_bytes) const {
    return ring.next - ring.tail < window_ && ring.payload.fits(payload_bytes) &&
           (heap_bytes == 0 || ring.heap.fits(heap_bytes));
  }
  void wait_for_room(Ring &ring, uint64_t payload_bytes, uint64_t heap_bytes);
  void reclaim(Ring &ring);
  [[noreturn]] void throw_deadlock(const Ring &ring, uint64_t payload_bytes, uint64_t heap_bytes) const;
  template <class Condition>
  void wait_on(TaskSlot &slot, Condition condition);
  static bool has_ended(const TaskSlot &slot);
  static bool is_retired(const TaskSlot &slot);

  uint64_t check_outputs(uint32_t depth, std::span<const uint64_t> output_bytes) const;
  void hand_out(Ring &ring, TaskSlot &slot, uint64_t heap_bytes, std::span<const uint64_t> output_bytes, HeapBlock *outputs);
  void depend(TaskSlot &task, TaskId producer);
  TaskSlot &find_owner(TaskId id) const;
  void hold(TaskSlot &task, TaskId owner);
  Edge *new_edge(TaskSlot &task);
  PoolEdge *pool_edge(TaskSlot &task);
  void recycle(TaskSlot &task);

  void finish(TaskSlot &task, Outcome outcome, TaskSlot *&ready, TaskSlot *&skipped);
  void release_holds(TaskSlot &task);
  void release(TaskSlot &slot);
  void wake_submitter(const TaskSlot &slot);

  // ---- submitter's own
  EngineOptions options_;
  uint32_t window_;
  uint64_t heap_bytes_;
  std::vector<std::unique_ptr<Ring>> rings_;
  std::vector<Scope> scopes_;
  TensorMap map_;
  PoolEdge *free_edges_ = nullptr;
  std::vector<std::unique_ptr<PoolEdge[]>> edge_blocks_;
  std::vector<TaskId> awaited_tasks_;  // scratch of await
  // Tasks of this run that did not end well and may have left their slots: whoever comes to depend on them is skipped, too.
  std::unordered_set<TaskId> failed_tasks_;
  PollBudget budget_;
  uint64_t submitted_ = 0;
  uint64_t dependencies_ = 0;

  // ---- shared
  // Slot that the submitter waits for, null when it does not wait. Written by the submitter (seq_cst, before it checks its
  // condition), read by completers (seq_cst, after they changed the slot): one of the two sees the other.
  alignas(64) std::atomic<TaskSlot *> awaited_{nullptr};
  Doorbell bell_;  // rung by completers of the awaited slot and by stop()
  std::atomic<bool> stopped_{false};
  // Rare outcomes only: nothing on the path of a task that succeeds counts in a shared line.
  alignas(64) std::atomic<uint64_t> failed_{0};
  std::atomic<uint64_t> skipped_{0};
  std::atomic<uint64_t> cancelled_{0};
};

}  // namespace simpler::graph
