#include "chip/scheduler.h"

#include <bit>
#include <cstring>

#include "chip/task_payload.h"

namespace simpler::chip {

namespace {

// Ring size to start with: the ready tasks of a full window.
uint64_t ring_capacity(uint32_t window) { return std::bit_ceil(uint64_t{window < 64 ? 64 : window}); }

}  // namespace

Scheduler::Scheduler(const SchedulerOptions &options, const Geometry &geometry, std::span<CoreRegisters> registers,
                     Outbox &outbox)
    : geometry_(geometry), registers_(registers), cores_(geometry), queue_(options.workers, ring_capacity(options.window)) {
  for (uint32_t i = 0; i < geometry.cores(); i++) identities_.push_back(geometry.core(i));
  for (uint32_t i = 0; i < options.workers; i++) workers_.push_back(std::make_unique<Worker>(options.chip, outbox));
}

// ---- cores ----------------------------------------------------------------------------------------------------------

bool Scheduler::hold_core(Worker &self, simpler_core_type type) {
  if (self.core != kNoCore) {
    if (identities_[self.core].type == type) return true;
    give_back_core(self);
  }
  const uint32_t index = type_index(type);
  const uint32_t core = cores_.claim(type, self.last_core[index]);
  if (core == kNoCore) return false;
  self.core = self.last_core[index] = core;
  self.executor.enter_core(registers_[core], identities_[core]);
  return true;
}

void Scheduler::give_back_core(Worker &self) {
  if (self.core == kNoCore) return;
  const uint32_t type = type_index(identities_[self.core].type);
  cores_.release(self.core);
  self.core = kNoCore;
  if (waiting_[type].count.load(std::memory_order_seq_cst) != 0) carriers_->notify();
}

// ---- finding work ---------------------------------------------------------------------------------------------------

bool Scheduler::has_work() const {
  for (const simpler_core_type type : {SIMPLER_CORE_AIC, SIMPLER_CORE_AIV})
    if (waiting_[type_index(type)].count.load(std::memory_order_seq_cst) != 0 && cores_.has_free(type)) return true;
  return !queue_.empty();
}

void Scheduler::let_wait(graph::TaskSlot &task, simpler_core_type type) {
  WaitingList &list = waiting_[type_index(type)];
  const std::lock_guard lock(mutex_);
  task.next_ready = nullptr;
  if (list.last != nullptr) {
    list.last->next_ready = &task;
  } else {
    list.first = &task;
  }
  list.last = &task;
  list.count.fetch_add(1, std::memory_order_seq_cst);
}

bool Scheduler::take_waiting(uint32_t worker, simpler_core_type type, Work &work) {
  WaitingList &list = waiting_[type_index(type)];
  if (list.count.load(std::memory_order_seq_cst) == 0) return false;
  if (!hold_core(*workers_[worker], type)) return false;
  const std::lock_guard lock(mutex_);
  if (list.first == nullptr) return false;
  graph::TaskSlot &task = *list.first;
  TaskPayload &payload = payload_of(task);
  work = {&task, 0};
  bool is_last = true;
  if (payload.block_count > 1) {
    work.block = payload.spmd().next_block++;
    is_last = payload.spmd().next_block == payload.block_count;
  }
  if (is_last) {
    list.first = task.next_ready;
    if (list.first == nullptr) list.last = nullptr;
    list.count.fetch_sub(1, std::memory_order_seq_cst);
  }
  return true;
}

bool Scheduler::find_work(uint32_t worker, Work &work) {
  Worker &self = *workers_[worker];
  for (;;) {
    // What waits for cores is older than what has just become ready. The type of the core that we hold comes first.
    const simpler_core_type held = self.core != kNoCore ? identities_[self.core].type : simpler_core_type{SIMPLER_CORE_AIV};
    if (take_waiting(worker, held, work)) return true;
    if (take_waiting(worker, held == SIMPLER_CORE_AIC ? SIMPLER_CORE_AIV : SIMPLER_CORE_AIC, work)) return true;
    graph::TaskSlot *task = queue_.pop(worker);
    if (task == nullptr) return false;
    TaskPayload &payload = payload_of(*task);
    const simpler_core_type type = core_type_of(payload);
    if (payload.block_count == 1 && hold_core(self, type)) {
      work = {task, 0};
      return true;
    }
    if (payload.block_count > 1) {
      // Memory that must read as zero is cleared before any block can run.
      for (uint32_t i = 0; i < payload.zero_count; i++)
        memset(payload.zero_ranges()[i].data, 0, payload.zero_ranges()[i].bytes);
      payload.zero_count = 0;
    }
    let_wait(*task, type);
  }
}

// ---- running --------------------------------------------------------------------------------------------------------

bool Scheduler::run_some(uint32_t worker, uint64_t tasks_max, const std::function<void()> *found) noexcept {
  Worker &self = *workers_[worker];
  Work work;
  if (!find_work(worker, work)) {
    give_back_core(self);
    return false;
  }
  if (found != nullptr) (*found)();
  for (uint64_t count = 1;; count++) {
    graph::TaskSlot *next = run(worker, work);
    if (count >= tasks_max) {
      if (next != nullptr) dispose(worker, next, false);
      break;
    }
    if (next != nullptr) {
      // The first task that we made ready runs here at once - unless older ones wait for the core that it would take.
      TaskPayload &payload = payload_of(*next);
      const simpler_core_type type = core_type_of(payload);
      if (payload.block_count == 1 && waiting_[type_index(type)].count.load(std::memory_order_relaxed) == 0 &&
          hold_core(self, type)) {
        work = {next, 0};
        continue;
      }
      dispose(worker, next, false);
    }
    if (!find_work(worker, work)) break;
  }
  give_back_core(self);
  return true;
}

void Scheduler::dispatch(Worker &self, graph::TaskSlot &task, uint32_t block) {
  CoreRegisters &core = registers_[self.core];
  core.task.store(task.id, std::memory_order_relaxed);
  core.block.store(block, std::memory_order_relaxed);
  // A count, see registers.h. release: publishes task and block.
  core.task_word.store(core.task_word.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

graph::TaskSlot *Scheduler::run(uint32_t worker, const Work &work) {
  Worker &self = *workers_[worker];
  graph::TaskSlot &task = *work.task;
  TaskPayload &payload = payload_of(task);
  const bool cancelled = engine_->stopped();
  bool failed = false;
  if (!cancelled) {
    for (uint32_t i = 0; i < payload.zero_count; i++)
      memset(payload.zero_ranges()[i].data, 0, payload.zero_ranges()[i].bytes);
    dispatch(self, task, work.block);
    failed = !self.executor.execute(task, payload);
    if (failed) record_failure(self, task, payload);
  }
  if (payload.block_count > 1) {
    SpmdState &spmd = payload.spmd();
    if (failed) spmd.failed.store(true, std::memory_order_relaxed);  // published by the decrement
    // acq_rel: what all blocks wrote is seen by whoever completes the task.
    if (spmd.blocks_left.fetch_sub(1, std::memory_order_acq_rel) != 1) return nullptr;
    failed = spmd.failed.load(std::memory_order_relaxed);
  }
  const graph::Outcome outcome = failed      ? graph::Outcome::kFailed
                                 : cancelled ? graph::Outcome::kCancelled
                                             : graph::Outcome::kDone;
  graph::TaskSlot *ready = engine_->complete(task, outcome);
  return ready != nullptr ? dispose(worker, ready, true) : nullptr;
}

graph::TaskSlot *Scheduler::dispose(uint32_t worker, graph::TaskSlot *ready, bool keep_first) {
  graph::TaskSlot *first = nullptr;
  bool pushed = false;
  while (ready != nullptr) {
    graph::TaskSlot &task = *ready;
    ready = task.next_ready;
    TaskPayload &payload = payload_of(task);
    if (payload.shape == 0) {
      // It only carries dependencies. What it makes ready goes to the front: those are older than the rest.
      graph::TaskSlot *more =
          engine_->complete(task, engine_->stopped() ? graph::Outcome::kCancelled : graph::Outcome::kDone);
      if (more != nullptr) {
        graph::TaskSlot *last = more;
        while (last->next_ready != nullptr) last = last->next_ready;
        last->next_ready = ready;
        ready = more;
      }
      continue;
    }
    if (keep_first && first == nullptr) {
      first = &task;
      first->next_ready = nullptr;  // a chain of its own: it may come back here
      continue;
    }
    queue_.add(worker, task, payload.ordinal);
    pushed = true;
  }
  if (pushed) {
    queue_.publish(worker);
    carriers_->notify();
  }
  return first;
}

void Scheduler::submit(graph::TaskSlot &task) {
  task.next_ready = nullptr;
  dispose(0, &task, false);
}

void Scheduler::record_failure(const Worker &self, const graph::TaskSlot &task, const TaskPayload &payload) {
  if (failure_.has_failed()) return;
  const Kernel &kernel = payload.kernel();
  const CoreExecutor::Failure &failure = self.executor.failure();
  ErrorInfo error;
  error.code = SIMPLER_KERNEL_FAILED;
  error.user_code = failure.code;
  error.kernel = kernel.id;
  error.task = task.id;
  if (payload.label() != nullptr) error.task_label = payload.label();
  error.message = fmt::format("kernel {} (\"{}\") of task {}{}{}{} failed with code {}: {}", kernel.id, kernel.name, task.id,
                              error.task_label.empty() ? "" : " (\"", error.task_label,
                              error.task_label.empty() ? "" : "\")", failure.code, failure.text);
  if (payload.block_count > 1)
    error.message +=
        fmt::format(" (block {} of {})", registers_[self.core].block.load(std::memory_order_relaxed), payload.block_count);
  failure_.record(std::move(error));
}

}  // namespace simpler::chip
