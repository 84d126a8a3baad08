#include "chip/scheduler.h"

#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "chip/task_payload.h"

namespace simpler::chip {

namespace {

// Ring size to start with: the ready tasks of a full window.
uint64_t ring_capacity(uint32_t window) { return std::bit_ceil(uint64_t{window < 64 ? 64 : window}); }

}  // namespace

Scheduler::Scheduler(const SchedulerOptions &options, const Geometry &geometry, std::span<CoreRegisters> registers,
                     Outbox &outbox)
    : geometry_(geometry),
      ring_count_(options.workers),
      registers_(registers),
      workers_(options.workers + options.stand_ins),
      cores_(geometry),
      cohorts_(geometry, cores_),
      seeded_(options.is_seeded ? std::make_unique<SeededOrder>(0) : nullptr),
      queue_(options.workers, options.workers + options.stand_ins, ring_capacity(options.window)) {
  for (uint32_t i = 0; i < geometry.cores(); i++) identities_.push_back(geometry.core(i));
  environment_.chip = options.chip;
  environment_.outbox = &outbox;
  environment_.signals = options.signals;
  environment_.deferred = &deferred_;
  environment_.is_over = [this] { return engine_->stopped() || failure_.has_failed(); };
}

void Scheduler::begin_run(uint64_t seed) {
  failure_.reset();
  if (seeded_ != nullptr) *seeded_ = SeededOrder(seed);
}

Scheduler::Worker &Scheduler::worker_at(uint32_t worker) {
  // Each worker asks for its own only.
  std::unique_ptr<Worker> &self = workers_[worker];
  if (self == nullptr) self = std::make_unique<Worker>(environment_, worker == 0 ? nullptr : carriers_);
  return *self;
}

// ---- cores ----------------------------------------------------------------------------------------------------------

bool Scheduler::hold_core(Worker &self, simpler_core_type type) {
  if (self.core != kNoCore) {
    if (identities_[self.core].type == type && !cores_.is_reserved(self.core)) return true;
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
  release_core(std::exchange(self.core, kNoCore));
}

void Scheduler::release_core(uint32_t core) {
  if (cores_.release(core)) {
    cohorts_.core_released();
    start_cohorts();
  } else if (waiting_[type_index(identities_[core].type)].count.load(std::memory_order_seq_cst) != 0) {
    carriers_->notify();
  }
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
  if (!hold_core(worker_at(worker), type)) return false;
  const std::lock_guard lock(mutex_);
  if (list.first == nullptr) return false;
  graph::TaskSlot &task = *list.first;
  TaskPayload &payload = payload_of(task);
  work = {&task, 0};
  bool is_last = true;
  if (payload.has_several_calls()) {
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
  Worker &self = worker_at(worker);
  if (self.core != kNoCore && cores_.is_reserved(self.core)) give_back_core(self);
  for (;;) {
    // What waits for cores is older than what has just become ready. The type of the core that we hold comes first.
    const simpler_core_type held = self.core != kNoCore ? identities_[self.core].type : simpler_core_type{SIMPLER_CORE_AIV};
    if (take_waiting(worker, held, work)) return true;
    if (take_waiting(worker, held == SIMPLER_CORE_AIC ? SIMPLER_CORE_AIV : SIMPLER_CORE_AIC, work)) return true;
    graph::TaskSlot *task = queue_.pop(worker);
    if (task == nullptr) return false;
    TaskPayload &payload = payload_of(*task);
    const simpler_core_type type = core_type_of(payload);
    if (!payload.has_several_calls()) {
      if (hold_core(self, type)) {
        work = {task, 0};
        return true;
      }
    } else {
      clear_outputs(payload);  // before any of its calls can be made
    }
    let_wait(*task, type);
  }
}

// ---- running --------------------------------------------------------------------------------------------------------

bool Scheduler::run_some(uint32_t worker, uint64_t tasks_max, const std::function<void()> *found) noexcept {
  if (seeded_ != nullptr) return step_seeded();
  Worker &self = worker_at(worker);
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
      const simpler_core_type type = core_type_of(payload_of(*next));
      if (waiting_[type_index(type)].count.load(std::memory_order_relaxed) == 0 && hold_core(self, type)) {
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

void Scheduler::dispatch(uint32_t core_index, const graph::TaskSlot &task, uint32_t block) {
  CoreRegisters &core = registers_[core_index];
  core.task.store(task.id, std::memory_order_relaxed);
  core.block.store(block, std::memory_order_relaxed);
  // A count, see registers.h. release: publishes task and block.
  core.task_word.store(core.task_word.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

graph::Outcome Scheduler::call(CoreExecutor &executor, uint32_t core, graph::TaskSlot &task, uint32_t block,
                               const Kernel &kernel, Cohort *cohort, uint32_t member) {
  if (engine_->stopped()) return graph::Outcome::kCancelled;
  dispatch(core, task, block);
  TaskPayload &payload = payload_of(task);
  const graph::Outcome outcome = executor.execute(task, payload, kernel, cohort, member);
  if (outcome == graph::Outcome::kFailed) record_failure(executor, task, payload, kernel, block);
  return outcome;
}

bool Scheduler::end_call(TaskPayload &payload, graph::Outcome &outcome) {
  if (!payload.has_several_calls()) return true;
  SpmdState &spmd = payload.spmd();
  // Published by the decrement.
  if (outcome == graph::Outcome::kFailed) spmd.failed.store(true, std::memory_order_relaxed);
  if (outcome == graph::Outcome::kCancelled) spmd.cancelled.store(true, std::memory_order_relaxed);
  // acq_rel: what all calls wrote is seen by whoever completes the task.
  if (spmd.calls_left.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  outcome = spmd.failed.load(std::memory_order_relaxed)      ? graph::Outcome::kFailed
            : spmd.cancelled.load(std::memory_order_relaxed) ? graph::Outcome::kCancelled
                                                             : graph::Outcome::kDone;
  return true;
}

graph::TaskSlot *Scheduler::end_task(graph::TaskSlot &task, graph::Outcome outcome) {
  if (deferred_.any()) {
    if (outcome == graph::Outcome::kDone) {
      const DeferredTasks::Kept kept = deferred_.keep(task);
      if (kept == DeferredTasks::Kept::kFirst && seeded_ == nullptr) start_watch();
      if (kept != DeferredTasks::Kept::kNo) return nullptr;
    } else {
      deferred_.drop(task.id);
    }
  }
  return engine_->complete(task, outcome);
}

graph::TaskSlot *Scheduler::run(uint32_t worker, const Work &work) {
  Worker &self = *workers_[worker];
  TaskPayload &payload = payload_of(*work.task);
  if (!payload.has_several_calls()) clear_outputs(payload);
  graph::Outcome outcome = call(self.executor, self.core, *work.task, work.block, payload.kernel(), nullptr, 0);
  if (!end_call(payload, outcome)) return nullptr;
  graph::TaskSlot *ready = end_task(*work.task, outcome);
  return ready != nullptr ? dispose(worker, ready, true) : nullptr;
}

void Scheduler::clear_outputs(TaskPayload &payload) {
  for (uint32_t i = 0; i < payload.zero_count; i++) memset(payload.zero_ranges()[i].data, 0, payload.zero_ranges()[i].bytes);
  payload.zero_count = 0;
}

// Whether the task's predicate says that it is not to run; its outputs then read as zero.
bool Scheduler::skip(graph::TaskSlot &task, TaskPayload &payload) {
  if ((payload.flags & TaskPayload::kPredicated) == 0) return false;
  const Predicate &predicate = payload.predicate();
  const uint64_t word = load_element(predicate.element, predicate.dtype);
  if (compare_words(word, predicate.compare, predicate.constant, predicate.dtype)) return false;
  for (uint32_t i = 0; i < payload.args.tensor_count; i++) {
    const simpler_tensor &tensor = payload.args.tensors[i];
    if (tensor.owner == task.id) memset(tensor.allocation, 0, static_cast<size_t>(tensor.allocation_bytes));
  }
  return true;
}

graph::TaskSlot *Scheduler::dispose(uint32_t worker, graph::TaskSlot *ready, bool keep_first) {
  graph::TaskSlot *first = nullptr;
  bool pushed = false;
  bool starts_cohorts = false;
  while (ready != nullptr) {
    graph::TaskSlot &task = *ready;
    ready = task.next_ready;
    TaskPayload &payload = payload_of(task);
    if (payload.shape == 0 || skip(task, payload)) {
      clear_outputs(payload);
      // It runs nothing. What it makes ready goes to the front: those are older than the rest.
      graph::TaskSlot *more =
          engine_->complete(task, engine_->stopped() ? graph::Outcome::kCancelled : graph::Outcome::kDone);
      if (more != nullptr) {
        graph::TaskSlot *last = more;
        while (last->next_ready != nullptr) last = last->next_ready;
        last->next_ready = ready;
        ready = more;
      }
    } else if (seeded_ != nullptr) {
      clear_outputs(payload);
      const uint32_t calls = CohortQueue::takes(payload) ? 1 : payload.block_count;
      for (uint32_t block = 0; block < calls; block++) seeded_->add(SeededOrder::Call{&task, block});
    } else if (CohortQueue::takes(payload)) {
      clear_outputs(payload);
      cohorts_.push(task);
      starts_cohorts = true;
    } else if (keep_first && first == nullptr && !payload.has_several_calls()) {
      first = &task;
      first->next_ready = nullptr;  // a chain of its own: it may come back here
    } else if (has_ring(worker)) {
      queue_.add(worker, task, payload.ordinal);
      pushed = true;
    } else {
      clear_outputs(payload);
      let_wait(task, core_type_of(payload));
      carriers_->notify();
    }
  }
  if (pushed) {
    queue_.publish(worker);
    carriers_->notify();
  }
  if (starts_cohorts) start_cohorts();
  return first;
}

void Scheduler::submit(graph::TaskSlot &task) {
  task.next_ready = nullptr;
  dispose(0, &task, false);
  if (seeded_ == nullptr) return;
  // Sometimes the submitter stalls, and some of what is ready runs.
  while (seeded_->choose(2) == 0 && step_seeded()) {
  }
}

// ---- cohorts --------------------------------------------------------------------------------------------------------

void Scheduler::start_cohorts() {
  while (const std::shared_ptr<Cohort> cohort = cohorts_.take()) start(cohort);
}

void Scheduler::start(const std::shared_ptr<Cohort> &cohort) {
  try {
    // All threads are there before any begins.
    std::vector<ThreadReserve::Lease> leases = reserve_->acquire(cohort->size());
    std::vector<std::function<void()>> jobs;
    for (uint32_t i = 0; i < cohort->size(); i++) jobs.emplace_back([this, cohort, i] { run_member(*cohort, i); });
    for (uint32_t i = 0; i < cohort->size(); i++) leases[i].start(std::move(jobs[i]));
  } catch (...) {
    record_failure(cohort->task(), capture_current_exception().message.c_str());
    abandon(*cohort);
  }
}

void Scheduler::run_member(Cohort &cohort, uint32_t member) {
  const Cohort::Seat &seat = cohort.seat(member);
  graph::TaskSlot &task = cohort.task();
  TaskPayload &payload = payload_of(task);
  CoreExecutor executor(environment_);
  executor.enter_core(registers_[seat.core], identities_[seat.core]);
  graph::Outcome outcome = call(executor, seat.core, task, seat.block, *payload.kernels[seat.position], &cohort, member);
  cohort.leave(member);
  release_core(seat.core);
  if (!end_call(payload, outcome)) return;
  if (graph::TaskSlot *ready = end_task(task, outcome)) dispose(kNoWorker, ready, false);
}

// The cohort cannot start: its calls end without having been made.
void Scheduler::abandon(Cohort &cohort) {
  graph::TaskSlot &task = cohort.task();
  const uint32_t calls = cohort.size();
  std::vector<uint32_t> cores;
  for (uint32_t i = 0; i < calls; i++) cores.push_back(cohort.seat(i).core);
  for (const uint32_t core : cores) {
    if (cores_.release(core)) cohorts_.core_released();
    carriers_->notify();
  }
  for (uint32_t i = 0; i < calls; i++) {
    graph::Outcome outcome = graph::Outcome::kFailed;
    if (!end_call(payload_of(task), outcome)) continue;
    if (graph::TaskSlot *ready = end_task(task, outcome)) dispose(kNoWorker, ready, false);
    return;
  }
}

// ---- deferred completion --------------------------------------------------------------------------------------------

void Scheduler::start_watch() {
  try {
    std::vector<ThreadReserve::Lease> lease = reserve_->acquire(1);
    lease.front().start([this] { watch_deferred(); });
  } catch (...) {
    failure_.record(capture_current_exception());
    watch_deferred();  // the run is over then: ends them all
  }
}

void Scheduler::watch_deferred() {
  // How long a plain store to a counter may go unnoticed.
  constexpr uint64_t kLivenessNs = 2'000'000;
  PollBudget budget;
  do {
    environment_.signals.any().wait(
        kForever, budget, [this] { return deferred_.is_due() || environment_.is_over(); }, kLivenessNs);
    const bool is_over = environment_.is_over();
    for (graph::TaskSlot *task : deferred_.take_due(is_over)) {
      const graph::Outcome outcome = is_over ? graph::Outcome::kCancelled : graph::Outcome::kDone;
      if (graph::TaskSlot *ready = engine_->complete(*task, outcome)) dispose(kNoWorker, ready, false);
    }
  } while (!deferred_.end_watch());
}

// ---- seeded mode ----------------------------------------------------------------------------------------------------

bool Scheduler::step_seeded() {
  if (deferred_.any()) {
    const bool is_over = environment_.is_over();
    for (graph::TaskSlot *task : deferred_.take_due(is_over))
      seeded_->add(SeededOrder::Ended{task, is_over ? graph::Outcome::kCancelled : graph::Outcome::kDone});
  }
  if (seeded_->prefers_end()) {
    const SeededOrder::Ended ended = seeded_->take_ended();
    if (graph::TaskSlot *ready = engine_->complete(*ended.task, ended.outcome)) dispose(0, ready, false);
    return true;
  }
  if (!seeded_->has_calls()) return deferred_.any();
  const SeededOrder::Call next = seeded_->take_call();
  TaskPayload &payload = payload_of(*next.task);
  graph::Outcome outcome = graph::Outcome::kDone;
  bool is_last = false;
  if (CohortQueue::takes(payload)) {
    is_last = run_cohorts_seeded(*next.task, outcome);
  } else {
    Worker &self = worker_at(0);
    const simpler_core_type type = core_type_of(payload);
    const auto number = static_cast<uint32_t>(seeded_->choose(geometry_.cores(type)));
    self.core = cores_.claim(type, geometry_.index_of(type, number));
    self.executor.enter_core(registers_[self.core], identities_[self.core]);
    outcome = call(self.executor, self.core, *next.task, next.block, payload.kernel(), nullptr, 0);
    release_core(std::exchange(self.core, kNoCore));
    is_last = end_call(payload, outcome);
  }
  if (!is_last) return true;
  if (deferred_.any()) {
    if (outcome != graph::Outcome::kDone) {
      deferred_.drop(next.task->id);
    } else if (deferred_.keep(*next.task) != DeferredTasks::Kept::kNo) {
      return true;
    }
  }
  seeded_->add(SeededOrder::Ended{next.task, outcome});
  return true;
}

// Runs all cohorts of a task, one after the other; the members of each have threads of their own. Whether the task's calls are all over.
bool Scheduler::run_cohorts_seeded(graph::TaskSlot &task, graph::Outcome &outcome) {
  struct Results {  // shared: a member still rings when its result has been seen
    explicit Results(uint32_t members) : left(members), outcomes(members, graph::Outcome::kFailed) {}
    Doorbell bell;
    std::atomic<uint32_t> left;  // seq_cst: condition of the wait; hands on the outcomes
    std::vector<graph::Outcome> outcomes;
  };
  cohorts_.push(task);
  bool is_last = false;
  while (const std::shared_ptr<Cohort> cohort = cohorts_.take()) {
    const auto results = std::make_shared<Results>(cohort->size());
    const auto run_one = [this, cohort, results](uint32_t member) {
      const Cohort::Seat &seat = cohort->seat(member);
      CoreExecutor executor(environment_);
      executor.enter_core(registers_[seat.core], identities_[seat.core]);
      results->outcomes[member] = call(executor, seat.core, cohort->task(), seat.block,
                                       *payload_of(cohort->task()).kernels[seat.position], cohort.get(), member);
      cohort->leave(member);
      if (results->left.fetch_sub(1, std::memory_order_seq_cst) == 1) results->bell.ring();
    };
    try {
      std::vector<ThreadReserve::Lease> leases = reserve_->acquire(cohort->size());
      for (uint32_t i = 0; i < cohort->size(); i++) leases[i].start([run_one, i] { run_one(i); });
      results->bell.wait(kForever, [&] { return results->left.load(std::memory_order_seq_cst) == 0; });
    } catch (...) {
      record_failure(task, capture_current_exception().message.c_str());
    }
    for (uint32_t i = 0; i < cohort->size(); i++) {
      if (cores_.release(cohort->seat(i).core)) cohorts_.core_released();
      outcome = results->outcomes[i];
      is_last = end_call(payload_of(task), outcome);
    }
  }
  return is_last;
}

// ---- failures -------------------------------------------------------------------------------------------------------

void Scheduler::record_failure(const CoreExecutor &executor, const graph::TaskSlot &task, const TaskPayload &payload,
                               const Kernel &kernel, uint32_t block) {
  if (failure_.has_failed()) return;
  const CoreExecutor::Failure &failure = executor.failure();
  ErrorInfo error;
  error.code = SIMPLER_KERNEL_FAILED;
  error.user_code = failure.code;
  error.kernel = kernel.id;
  error.task = task.id;
  if (payload.label() != nullptr) error.task_label = payload.label();
  error.message = fmt::format("kernel {} (\"{}\") of task {}{}{}{} failed with code {}: {}", kernel.id, kernel.name, task.id,
                              error.task_label.empty() ? "" : " (\"", error.task_label,
                              error.task_label.empty() ? "" : "\")", failure.code, failure.text);
  if (payload.block_count > 1) error.message += fmt::format(" (block {} of {})", block, payload.block_count);
  failure_.record(std::move(error));
}

void Scheduler::record_failure(const graph::TaskSlot &task, const char *what) {
  ErrorInfo error;
  error.code = SIMPLER_SYSTEM_ERROR;
  error.task = task.id;
  error.message = fmt::format("task {} cannot start: {}", task.id, what);
  failure_.record(std::move(error));
}

}  // namespace simpler::chip
