// The AICPU's scheduler: takes ready tasks, finds them a core, dispatches, and completes them in the graph engine.
//
// It has no thread of its own. Workers - the carriers, and the orchestrator thread while it waits - call `run_some`; each is, in turn,
// scheduler and core, so that finishing a kernel, releasing its consumers and starting the next one need no switch of threads.
//
// The way of a task:
//   commit or complete ──► disposed of: no kernel: completed at once; else pushed to the worker's ready ring, or, the first of those that a
//   worker made ready itself, run next by it ──► popped ──► core claimed ──► dispatched ──► completed
// Detours through `waiting_` (one list per core type, under a lock, oldest first):
//   - no core of its type is free: the task waits there; whoever gives a core of the type back looks there first
//   - a task of several blocks: it stays at the head of the list until its last block is taken, one block at a time by whoever has a core
//   - a task that became ready on a thread that is no worker with a ready ring
// Tasks whose kernels start together go to the cohort queue, and run on threads of the reserve, one per core (cohort_queue.h). Tasks that
// defer their completion are kept when their kernels have returned, and completed by a watcher on a thread of the reserve while there are
// any (deferred_tasks.h).
// In seeded mode (seeded_order.h) there is one worker, the orchestrator thread, and everything is done in an order that the seed says.
//
// No wake-up is lost there: who lets a task wait looks afterwards whether a core is free (`has_work` before parking), who gives a core
// back looks afterwards whether a task waits; both with seq_cst.
//
// Ownership: engine, pools and queue belong to the chip and outlive the scheduler's use; a task belongs to the worker that popped it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "chip/carrier_pool.h"
#include "chip/cohort_queue.h"
#include "chip/core_executor.h"
#include "chip/core_pool.h"
#include "chip/deferred_tasks.h"
#include "chip/geometry.h"
#include "chip/outbox.h"
#include "chip/ready_queue.h"
#include "chip/registers.h"
#include "chip/run_failure.h"
#include "chip/seeded_order.h"
#include "chip/thread_reserve.h"
#include "graph/engine.h"

namespace simpler::chip {

struct SchedulerOptions {
  uint32_t chip = 0;
  uint32_t workers = 1;    // the orchestrator thread and carriers
  uint32_t stand_ins = 0;  // carriers that may come in addition
  uint32_t window = 0;
  bool is_seeded = false;  // there are no carriers then
  Signals signals;
};

class Scheduler {
 public:
  Scheduler(const SchedulerOptions &options, const Geometry &geometry, std::span<CoreRegisters> registers, Outbox &outbox);
  // Before any task; the engine and the pool call back into the scheduler, hence not in the constructor.
  void attach(graph::Engine &engine, CarrierPool &carriers, ThreadReserve &reserve) {
    engine_ = &engine;
    carriers_ = &carriers;
    reserve_ = &reserve;
  }
  // Between runs. In seeded mode the next run is scheduled in the order that the seed says.
  void begin_run(uint64_t seed);
  // Blocks that a task of this shape can have at once.
  uint32_t units(uint32_t shape) const { return cohorts_.available_units(shape); }

  // The orchestrator thread: a task that `commit` said is ready.
  void submit(graph::TaskSlot &task);
  // Runs ready tasks until there are none (`tasks_max` at most); false when there was none. `found` may be null; otherwise it is called
  // between taking the first task and running it. Called by the worker named.
  bool run_some(uint32_t worker, uint64_t tasks_max, const std::function<void()> *found) noexcept;
  // Whether run_some would find something.
  bool has_work() const;

  RunFailure &failure() { return failure_; }

 private:
  struct alignas(64) Worker {
    Worker(const KernelEnvironment &environment, CarrierPool *carriers) : executor(environment) {
      executor.set_carriers(carriers);
    }
    CoreExecutor executor;
    uint32_t core = kNoCore;  // held
    uint32_t last_core[kCoreTypes] = {kNoCore, kNoCore};
  };
  struct Work {
    graph::TaskSlot *task = nullptr;
    uint32_t block = 0;
  };
  // Tasks that wait for cores of one type, linked by next_ready.
  struct WaitingList {
    graph::TaskSlot *first = nullptr;
    graph::TaskSlot *last = nullptr;
    // Changed under mutex_ with seq_cst, read without it: see "no wake-up is lost" above.
    std::atomic<uint32_t> count{0};
  };

  static simpler_core_type core_type_of(const TaskPayload &payload) { return payload.kernel().core_type; }
  bool has_ring(uint32_t worker) const { return worker < ring_count_; }

  Worker &worker_at(uint32_t worker);
  bool find_work(uint32_t worker, Work &work);
  bool take_waiting(uint32_t worker, simpler_core_type type, Work &work);
  void let_wait(graph::TaskSlot &task, simpler_core_type type);
  bool hold_core(Worker &self, simpler_core_type type);
  void give_back_core(Worker &self);

  // In place of a worker: a thread that has no ready ring.
  static constexpr uint32_t kNoWorker = UINT32_MAX;

  void release_core(uint32_t core);
  void dispatch(uint32_t core_index, const graph::TaskSlot &task, uint32_t block);
  // Calls one kernel of the task on a core that the caller holds and has entered; kCancelled without the call when the run is cancelled.
  graph::Outcome call(CoreExecutor &executor, uint32_t core, graph::TaskSlot &task, uint32_t block, const Kernel &kernel,
                      Cohort *cohort, uint32_t member);
  // One call of the task has ended so. True: it was the last; `outcome` is then the task's.
  static bool end_call(TaskPayload &payload, graph::Outcome &outcome);
  // The task's calls have ended: completes it, unless it defers that. What became ready.
  graph::TaskSlot *end_task(graph::TaskSlot &task, graph::Outcome outcome);
  // Runs one task or block; the task to run next, if this made one ready.
  graph::TaskSlot *run(uint32_t worker, const Work &work);
  // Passes on what became ready, and returns the first of it that needs a core if `keep_first`; the rest is pushed.
  graph::TaskSlot *dispose(uint32_t worker, graph::TaskSlot *ready, bool keep_first);
  bool skip(graph::TaskSlot &task, TaskPayload &payload);
  static void clear_outputs(TaskPayload &payload);
  void start_cohorts();
  void start(const std::shared_ptr<Cohort> &cohort);
  void run_member(Cohort &cohort, uint32_t member);
  void abandon(Cohort &cohort);
  void start_watch();
  void watch_deferred();
  bool step_seeded();
  bool run_cohorts_seeded(graph::TaskSlot &task, graph::Outcome &outcome);
  void record_failure(const CoreExecutor &executor, const graph::TaskSlot &task, const TaskPayload &payload,
                      const Kernel &kernel, uint32_t block);
  void record_failure(const graph::TaskSlot &task, const char *what);

  const Geometry geometry_;
  const uint32_t ring_count_;
  const std::span<CoreRegisters> registers_;
  std::vector<CoreIdentity> identities_;
  // Those of stand-ins are made when first used, by their own threads.
  std::vector<std::unique_ptr<Worker>> workers_;
  graph::Engine *engine_ = nullptr;
  CarrierPool *carriers_ = nullptr;
  ThreadReserve *reserve_ = nullptr;
  KernelEnvironment environment_;
  CorePool cores_;
  CohortQueue cohorts_;
  DeferredTasks deferred_;
  const std::unique_ptr<SeededOrder> seeded_;  // in seeded mode; what it points to is the orchestrator thread's
  ReadyQueue queue_;
  RunFailure failure_;
  alignas(64) std::mutex mutex_;  // guards the lists and SpmdState::next_block; nothing is locked under it
  WaitingList waiting_[kCoreTypes];
};

}  // namespace simpler::chip
