// States of a slot, told by its two shared words:
//
//   state      fan_out     references  left by
//   open       list        >= 0        commit
//   pending    list        >= 0        the last producer's decrement of `pending` (or commit): ready
//   ready      list        >= 0        complete(): fan_out.exchange(closed)
//   ended      closed      > 0         the last release, by a consumer's completer or by the end of the scope
//   retired    closed      0           the submitter: reclaim, then open for the next task
//
// Order of a completer: release the memory that the task used, set its outcome, close its fan-out; from then on the slot may be
// another task's and is not touched any more. Then walk the consumers that were in the list.
#include "graph/engine.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <type_traits>

#include "base/error.h"

namespace simpler::graph {

namespace {

// Added to `pending` while the task is being built: producers that end meanwhile cannot bring it to 0.
constexpr int32_t kPendingBias = 1 << 30;
constexpr uint64_t kPayloadBytesPerSlot = 1024;
constexpr uint64_t kPayloadBytesMin = 2u << 20;  // holds the largest legal task
constexpr size_t kEdgesPerBlock = 256;
// Reclaiming is a look at the oldest slot, whose line a completer owns: done once in so many tasks unless room is short.
constexpr uint64_t kReclaimInterval = 64;

Edge closed_marker;
Edge *closed_fan_out() { return &closed_marker; }

// Slots come into being as zero pages: null lists, zero counts. No constructor touches them, so unused ones cost no memory.
static_assert(std::is_trivially_destructible_v<TaskSlot>);

void *map_lazily(uint64_t bytes) {
  void *memory =
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw_system_error(errno, fmt::format("mapping {} bytes for a task ring", bytes));
  return memory;
}

uint64_t payload_capacity(uint32_t window) { return std::max(window * kPayloadBytesPerSlot, kPayloadBytesMin); }

}  // namespace

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      window_(options_.window),
      heap_bytes_(options_.heap_bytes),
      map_(TensorMap::Liveness{&Engine::is_current, this}) {
  SIMPLER_ASSERT(std::has_single_bit(window_) && window_ >= 4);
  SIMPLER_ASSERT(heap_bytes_ >= ByteRing::kAlignment && heap_bytes_ % ByteRing::kAlignment == 0);
}

Engine::~Engine() {
  for (const std::unique_ptr<Ring> &ring : rings_) {
    if (ring == nullptr) continue;
    munmap(ring->slots, (ring->mask + 1) * sizeof(TaskSlot));
    munmap(ring->payload.at(0), payload_capacity(options_.window));
  }
}

Engine::Ring &Engine::make_ring(uint32_t depth) {
  if (depth >= rings_.size()) rings_.resize(depth + 1);
  auto ring = std::make_unique<Ring>();
  const uint64_t slots = options_.window;
  ring->slots = static_cast<TaskSlot *>(map_lazily(slots * sizeof(TaskSlot)));
  ring->mask = slots - 1;
  try {
    ring->payload.reset(static_cast<std::byte *>(map_lazily(payload_capacity(options_.window))),
                        payload_capacity(options_.window));
  } catch (...) {
    munmap(ring->slots, slots * sizeof(TaskSlot));
    throw;
  }
  ring->heap.reset(nullptr, heap_bytes_);
  rings_[depth] = std::move(ring);
  return *rings_[depth];
}

inline TaskSlot *Engine::find(TaskId id) const {
  const Ring *ring = find_ring(depth_of(id));
  const uint64_t sequence = sequence_of(id);
  // A slot is in use until a ring's length of tasks has followed. Told without a look at it: that would be a cache miss.
  if (ring == nullptr || sequence == 0 || ring->next - sequence - 1 > ring->mask) return nullptr;
  return &ring->slots[sequence & ring->mask];
}

inline bool Engine::has_failed(TaskId id) const { return !failed_tasks_.empty() && failed_tasks_.contains(id); }

// The tensor map keeps what this is true of: tasks that can still be waited for, and those whose failure is to be passed on.
bool Engine::is_current(const void *context, TaskId id) {
  const Engine &engine = *static_cast<const Engine *>(context);
  return engine.find(id) != nullptr || engine.has_failed(id);
}

// seq_cst, here and below: the conditions of the submitter's waits (see awaited_); acquire: everything that its completer, and
// the users of its memory, did with the slot is over.
bool Engine::has_ended(const TaskSlot &slot) { return slot.fan_out.load(std::memory_order_seq_cst) == closed_fan_out(); }

bool Engine::is_retired(const TaskSlot &slot) {
  return has_ended(slot) && slot.references.load(std::memory_order_seq_cst) == 0;
}

// ---- runs and scopes ------------------------------------------------------------------------------------------------

void Engine::begin_run(const RunLimits &limits) {
  SIMPLER_ASSERT(scopes_.empty());
  window_ = limits.window != 0 ? limits.window : options_.window;
  heap_bytes_ = limits.heap_bytes != 0 ? limits.heap_bytes : options_.heap_bytes;
  SIMPLER_ASSERT(std::has_single_bit(window_) && window_ >= 4 && window_ <= options_.window);
  SIMPLER_ASSERT(heap_bytes_ >= ByteRing::kAlignment && heap_bytes_ <= options_.heap_bytes);
  for (const std::unique_ptr<Ring> &ring : rings_) {
    if (ring == nullptr) continue;
    SIMPLER_ASSERT(ring->tail == ring->next);
    ring->first_of_run = ring->next;
    ring->payload.restart(payload_capacity(options_.window));
    ring->heap.restart(heap_bytes_);
    ring->heap_dirty = std::max(ring->heap_dirty, ring->heap_fresh);
    ring->heap_fresh = 0;
    ring->window_peak = 0;
  }
  map_.clear();
  failed_tasks_.clear();
  submitted_ = dependencies_ = 0;
  failed_.store(0, std::memory_order_relaxed);  // no completer is active between runs
  skipped_.store(0, std::memory_order_relaxed);
  cancelled_.store(0, std::memory_order_relaxed);
  stopped_.store(false, std::memory_order_relaxed);
}

void Engine::end_run() {
  while (!scopes_.empty()) scope_end();
  drain();
  for (const std::unique_ptr<Ring> &ring : rings_) {
    if (ring == nullptr) continue;
    SIMPLER_ASSERT(ring->tail == ring->next);
    SIMPLER_ASSERT(ring->payload.used() == 0 && ring->heap.used() == 0);
  }
}

void Engine::drain() {
  // Tasks never wait for the submitter, so the order does not matter; the newest first, because when it is over, most are: one
  // wake-up instead of many.
  for (const std::unique_ptr<Ring> &pointer : rings_) {
    if (pointer == nullptr) continue;
    Ring &ring = *pointer;
    for (uint64_t sequence = ring.next; sequence-- > ring.tail;) {
      TaskSlot &slot = ring.slots[sequence & ring.mask];
      // A slot that an open scope holds ends, but does not retire; its users are out of it when only that hold is left.
      wait_on(slot, [&slot] {
        return has_ended(slot) && slot.references.load(std::memory_order_seq_cst) == (slot.scope_open ? 1 : 0);
      });
    }
    reclaim(ring);
  }
}

void Engine::scope_begin(ScopeMode mode) {
  if (scopes_.size() >= kDepthMax)
    throw_error(SIMPLER_CAPACITY_WINDOW, "scopes nest at most {} deep; end a scope before opening another", kDepthMax);
  scopes_.push_back({mode, nullptr});
}

void Engine::scope_end() {
  SIMPLER_ASSERT(!scopes_.empty());
  for (TaskSlot *slot = scopes_.back().held; slot != nullptr;) {
    TaskSlot *next = slot->next_in_scope;
    slot->scope_open = false;
    release(*slot);
    slot = next;
  }
  scopes_.pop_back();
}

// ---- room -----------------------------------------------------------------------------------------------------------

void Engine::reclaim(Ring &ring) {
  ring.window_peak = std::max(ring.window_peak, ring.next - ring.tail);
  while (ring.tail < ring.next) {
    TaskSlot &slot = ring.slots[ring.tail & ring.mask];
    if (!is_retired(slot)) return;
    // relaxed: is_retired has acquired it.
    if (slot.outcome.load(std::memory_order_relaxed) != Outcome::kDone) failed_tasks_.insert(slot.id);
    if (slot.overflow != nullptr) recycle(slot);
    ring.payload.reclaim_to(slot.payload_end);
    ring.heap.reclaim_to(slot.heap_end);
    ring.tail++;
  }
}

// Gives the overflow edges of a retired slot back to the pool: nobody can be walking over them any more.
void Engine::recycle(TaskSlot &task) {
  for (PoolEdge *edge = task.overflow; edge != nullptr;) {
    PoolEdge *next = edge->next_overflow;
    edge->next_overflow = free_edges_;
    free_edges_ = edge;
    edge = next;
  }
  task.overflow = nullptr;
}

void Engine::throw_deadlock(const Ring &ring, uint64_t payload_bytes, uint64_t heap_bytes) const {
  const uint32_t depth = scope_depth() - 1;
  if (ring.next - ring.tail >= window_)
    throw_error(
        SIMPLER_DEADLOCK_WINDOW,
        "the task ring of scope depth {} is full and its oldest task owns memory that the open scope keeps: used {} of {} "
        "slots, 1 more needed; end the scope earlier, use inner scopes, or raise the option `window`",
        depth, ring.next - ring.tail, window_);
  if (heap_bytes != 0 && !ring.heap.fits(heap_bytes))
    throw_error(
        SIMPLER_DEADLOCK_HEAP,
        "the heap ring of scope depth {} is full and its oldest block is kept by the open scope: used {} of {} bytes, {} "
        "more needed in one piece; end the scope earlier, use inner scopes, or raise the option `heap_bytes`",
        depth, ring.heap.used(), ring.heap.capacity(), heap_bytes);
  throw_error(
      SIMPLER_DEADLOCK_WINDOW,
      "the memory for task arguments of scope depth {} is full and its oldest task is kept by the open scope: used {} of "
      "{} bytes, {} more needed; end the scope earlier, use inner scopes, or raise the option `window`",
      depth, ring.payload.used(), ring.payload.capacity(), payload_bytes);
}

void Engine::wait_for_room(Ring &ring, uint64_t payload_bytes, uint64_t heap_bytes) {
  for (bool first = true;; first = false) {
    reclaim(ring);
    if (has_room(ring, payload_bytes, heap_bytes)) return;
    if (stopped()) return;
    TaskSlot &oldest = ring.slots[ring.tail & ring.mask];
    if (oldest.scope_open) throw_deadlock(ring, payload_bytes, heap_bytes);
    // Waiting for one slot at a time would wake this thread once per task. The first wait is for a slot further on; slots
    // that a scope holds do not retire, so it stops before the first of those.
    uint64_t target = ring.tail;
    if (first) {
      const uint64_t last = ring.tail + (ring.next - ring.tail) / 4;
      while (target < last && !ring.slots[(target + 1) & ring.mask].scope_open) target++;
    }
    TaskSlot &slot = ring.slots[target & ring.mask];
    wait_on(slot, [this, &slot] { return is_retired(slot) || stopped_.load(std::memory_order_seq_cst); });
  }
}

template <class Condition>
void Engine::wait_on(TaskSlot &slot, Condition condition) {
  while (!condition()) {
    if (options_.help && options_.help()) continue;
    awaited_.store(&slot, std::memory_order_seq_cst);
    bell_.wait(kForever, budget_, condition);
    awaited_.store(nullptr, std::memory_order_relaxed);  // at worst one needless ring
  }
}

void Engine::stop() {
  stopped_.store(true, std::memory_order_seq_cst);
  bell_.ring();
}

// ---- building a task ------------------------------------------------------------------------------------------------

// Bytes of the heap that the outputs take together.
uint64_t Engine::check_outputs(uint32_t depth, std::span<const uint64_t> output_bytes) const {
  uint64_t sum = 0;
  for (const uint64_t bytes : output_bytes) {
    if (bytes > heap_bytes_ || sum > heap_bytes_ - ByteRing::round_up(bytes))
      throw_error(
          SIMPLER_CAPACITY_HEAP,
          "the outputs of one task need more than the whole heap ring of scope depth {}: {} bytes requested, capacity {}; "
          "raise the option `heap_bytes`",
          depth, sum + bytes, heap_bytes_);
    sum += ByteRing::round_up(bytes);
  }
  return sum;
}

TaskSlot *Engine::open(size_t payload_bytes, std::span<const uint64_t> output_bytes, HeapBlock *outputs) {
  SIMPLER_ASSERT(!scopes_.empty());
  if (stopped()) return nullptr;
  const uint32_t depth = scope_depth() - 1;
  Ring *const found = find_ring(depth);
  Ring &ring = found != nullptr ? *found : make_ring(depth);

  const uint64_t payload_size = ByteRing::round_up(payload_bytes);
  if (payload_size > ring.payload.capacity())
    throw_error(SIMPLER_CAPACITY_ARGUMENTS, "the arguments of one task need {} bytes; at most {} fit", payload_size,
                ring.payload.capacity());
  const uint64_t heap_size = output_bytes.empty() ? 0 : check_outputs(depth, output_bytes);
  if (heap_size != 0 && ring.heap.at(0) == nullptr)
    ring.heap.reset(options_.heap_memory(depth, options_.heap_bytes), heap_bytes_);

  if ((ring.next & (kReclaimInterval - 1)) == 0) reclaim(ring);
  if (!has_room(ring, payload_size, heap_size)) {
    wait_for_room(ring, payload_size, heap_size);
    if (stopped()) return nullptr;
  }

  TaskSlot &slot = ring.slots[ring.next & ring.mask];
  slot.id = (TaskId{depth} << kSequenceBits) | ring.next;
  ring.next++;
  slot.payload = ring.payload.at(ring.payload.allocate(payload_size));
  slot.payload_bytes = static_cast<uint32_t>(payload_bytes);
  slot.payload_end = ring.payload.head();
  slot.hold_count = 0;
  slot.more_holds = nullptr;
  slot.edge_count = 0;
  slot.dependencies = 0;
  slot.scope_open = heap_size != 0;
  // relaxed: the slot is retired, nobody else knows it; attaching edges and handing the task over publish these.
  slot.fan_out.store(nullptr, std::memory_order_relaxed);
  slot.pending.store(kPendingBias, std::memory_order_relaxed);
  slot.references.store(slot.scope_open ? 1 : 0, std::memory_order_relaxed);
  slot.poisoned.store(false, std::memory_order_relaxed);
  submitted_++;
  if (!output_bytes.empty()) hand_out(ring, slot, heap_size, output_bytes, outputs);
  slot.heap_end = ring.heap.head();
  return &slot;
}

// Takes the outputs' memory from the heap and gives it to the task, which its scope holds from now on.
void Engine::hand_out(Ring &ring, TaskSlot &slot, uint64_t heap_bytes, std::span<const uint64_t> output_bytes,
                      HeapBlock *outputs) {
  uint64_t offset = 0;
  if (heap_bytes != 0) {
    offset = ring.heap.allocate(heap_bytes);
    Scope &scope = scopes_.back();
    slot.next_in_scope = scope.held;
    scope.held = &slot;
  }
  for (size_t i = 0; i < output_bytes.size(); i++) {
    const uint64_t size = ByteRing::round_up(output_bytes[i]);
    outputs[i] = {};
    if (size == 0) continue;
    outputs[i].data = ring.heap.at(offset);
    outputs[i].bytes = output_bytes[i];
    // Bytes beyond what this run has handed out so far, and below what earlier runs wrote, are another run's data.
    const uint64_t end = std::min(offset + size, ring.heap_dirty);
    if (end > std::max(offset, ring.heap_fresh)) outputs[i].zero_bytes = std::min(end - offset, output_bytes[i]);
    ring.heap_fresh = std::max(ring.heap_fresh, offset + size);
    offset += size;
  }
}

PoolEdge *Engine::pool_edge(TaskSlot &task) {
  if (free_edges_ == nullptr) {
    edge_blocks_.push_back(std::make_unique<PoolEdge[]>(kEdgesPerBlock));
    PoolEdge *block = edge_blocks_.back().get();
    for (size_t i = 0; i < kEdgesPerBlock; i++) {
      block[i].next_overflow = free_edges_;
      free_edges_ = &block[i];
    }
  }
  PoolEdge *edge = free_edges_;
  free_edges_ = edge->next_overflow;
  edge->next_overflow = task.overflow;
  task.overflow = edge;
  return edge;
}

inline Edge *Engine::new_edge(TaskSlot &task) {
  const uint32_t number = task.edge_count++;
  if (number == 0) return &task.first_edge;
  if (number == 1) return &task.second_edge;
  if (number < kInlineEdges) return &task.other_edges[number - 2];
  return pool_edge(task);
}

inline void Engine::depend(TaskSlot &task, TaskId producer_id) {
  TaskSlot *producer = find(producer_id);
  if (producer == nullptr) {
    if (has_failed(producer_id)) task.poisoned.store(true, std::memory_order_relaxed);
    return;
  }
  if (producer->last_consumer == task.id || producer == &task) return;
  producer->last_consumer = task.id;
  dependencies_++;
  // acquire: if it is closed, everything that the producer did is visible before this task is handed out.
  Edge *head = producer->fan_out.load(std::memory_order_acquire);
  if (head != closed_fan_out()) {
    Edge *edge = new_edge(task);
    edge->slot = &task;
    do {
      edge->next = head;
      // release: the completer that takes the list sees the edge's fields. acquire on failure: as above.
      if (producer->fan_out.compare_exchange_weak(head, edge, std::memory_order_release, std::memory_order_acquire)) {
        task.dependencies++;
        return;
      }
    } while (head != closed_fan_out());
    // The edge stays with the task, unused.
  }
  if (producer->outcome.load(std::memory_order_relaxed) != Outcome::kDone)
    task.poisoned.store(true, std::memory_order_relaxed);
}

// The task that owns memory of an open scope.
TaskSlot &Engine::find_owner(TaskId id) const {
  TaskSlot *owner = find(id);
  if (owner == nullptr || !owner->scope_open)
    throw_error(SIMPLER_INVALID_ARGUMENT, "a tensor of task {} is used after the scope that it was made in has ended", id);
  return *owner;
}

void Engine::hold(TaskSlot &task, TaskId owner_id) {
  TaskSlot *owner = &find_owner(owner_id);
  if (owner == &task || owner->last_holder == task.id) return;
  owner->last_holder = task.id;
  // relaxed: the scope's own reference keeps it above 0 meanwhile.
  owner->references.fetch_add(1, std::memory_order_relaxed);
  if (task.hold_count < kInlineHolds) {
    task.holds[task.hold_count] = owner;
  } else {
    Edge *edge = pool_edge(task);
    edge->slot = owner;
    edge->next = task.more_holds;
    task.more_holds = edge;
  }
  task.hold_count++;
}

void Engine::access(TaskSlot &task, const simpler_tensor &view, simpler_tag tag) {
  if (view.owner != 0) hold(task, view.owner);
  if (tag == SIMPLER_TAG_NO_DEP) return;
  Region region;
  if (!region_of(view, region)) return;
  if (tag == SIMPLER_TAG_OUTPUT) {
    map_.write_fresh(region, task.id);
    return;
  }
  if (in_manual_scope()) {
    map_.note(region, task.id, tag != SIMPLER_TAG_INPUT);
    return;
  }
  auto depend_on = [this, &task](TaskId producer) { depend(task, producer); };
  if (tag == SIMPLER_TAG_INPUT)
    map_.read(region, task.id, depend_on);
  else
    map_.write(region, task.id, depend_on);
}

void Engine::access_in_any_scope(TaskSlot &task, const simpler_tensor &view) {
  if (view.owner != 0) hold(task, view.owner);
  Region region;
  if (region_of(view, region)) map_.read(region, task.id, [this, &task](TaskId producer) { depend(task, producer); });
}

bool Engine::await(const simpler_tensor &view, bool readers) {
  if (view.owner != 0) find_owner(view.owner);
  Region region;
  if (!region_of(view, region)) return true;
  awaited_tasks_.clear();
  map_.visit(region, readers, [this](TaskId task) { awaited_tasks_.push_back(task); });
  bool ended_well = true;
  for (const TaskId id : awaited_tasks_) {
    TaskSlot *slot = find(id);
    if (slot == nullptr) {
      ended_well = ended_well && !has_failed(id);
      continue;
    }
    wait_on(*slot, [this, slot] { return has_ended(*slot) || stopped_.load(std::memory_order_seq_cst); });
    if (!has_ended(*slot)) return false;
    ended_well = ended_well && slot->outcome.load(std::memory_order_relaxed) == Outcome::kDone;  // has_ended acquired it
  }
  return ended_well;
}

void Engine::after(TaskSlot &task, TaskId producer) {
  const Ring *ring = find_ring(depth_of(producer));
  const uint64_t sequence = sequence_of(producer);
  if (ring == nullptr || sequence == 0 || sequence >= ring->next || producer == task.id)
    throw_error(SIMPLER_INVALID_ARGUMENT, "a task is to run after task {}, which does not exist", producer);
  if (sequence >= ring->first_of_run) depend(task, producer);
}

bool Engine::commit(TaskSlot &task) {
  if (task.dependencies == 0) {
    // relaxed: no edge names this task, so no completer knows it.
    task.pending.store(0, std::memory_order_relaxed);
    if (!task.poisoned.load(std::memory_order_relaxed)) return true;
  } else {
    // acq_rel: publishes the task to the completer that brings it to 0, and takes over what earlier ones published.
    const int32_t bias = kPendingBias - task.dependencies;
    if (task.pending.fetch_sub(bias, std::memory_order_acq_rel) != bias) return false;
    if (!task.poisoned.load(std::memory_order_relaxed)) return true;
  }
  // A producer had failed: nothing can wait for this task yet, so ending it here makes nothing ready.
  TaskSlot *ready = complete(task, Outcome::kSkipped);
  SIMPLER_ASSERT(ready == nullptr);
  return false;
}

TaskSlot *Engine::abandon(TaskSlot &task) {
  // Producers may hold edges to it, so it ends as any task does: when they have, as one that is skipped.
  submitted_--;
  skipped_.fetch_sub(1, std::memory_order_relaxed);  // made up for when it is counted as skipped
  task.poisoned.store(true, std::memory_order_relaxed);
  commit(task);
  return nullptr;
}

HeapBlock Engine::allocate(uint64_t bytes, TaskId *owner) {
  SIMPLER_ASSERT(!scopes_.empty());
  HeapBlock block;
  const uint64_t sizes[] = {bytes};
  const Ring *before = find_ring(scope_depth() - 1);
  const uint64_t used = before != nullptr ? std::max(before->heap_fresh, before->heap_dirty) : 0;  // beyond, all is zero
  TaskSlot *slot = open(0, sizes, &block);
  if (slot == nullptr) return {};
  submitted_--;
  *owner = block.data != nullptr ? slot->id : 0;
  slot->pending.store(0, std::memory_order_relaxed);
  complete(*slot, Outcome::kDone);
  if (block.data == nullptr) return block;
  // Unlike an OUTPUT, it reads as zero also where this run has used the memory before.
  const uint64_t offset = static_cast<uint64_t>(block.data - find_ring(scope_depth() - 1)->heap.at(0));
  if (offset < used) memset(block.data, 0, static_cast<size_t>(std::min(bytes, used - offset)));
  block.zero_bytes = 0;
  return block;
}

RunStatistics Engine::statistics() const {
  RunStatistics statistics;
  statistics.submitted = submitted_;
  statistics.failed = failed_.load(std::memory_order_relaxed);
  statistics.skipped = skipped_.load(std::memory_order_relaxed);
  statistics.cancelled = cancelled_.load(std::memory_order_relaxed);
  statistics.done = submitted_ - statistics.failed - statistics.skipped - statistics.cancelled;
  statistics.dependencies = dependencies_;
  statistics.regions_peak = map_.entries_peak();
  for (const std::unique_ptr<Ring> &ring : rings_) {
    if (ring == nullptr) continue;
    statistics.window_peak = std::max(statistics.window_peak, ring->window_peak);
    statistics.heap_bytes_peak = std::max(statistics.heap_bytes_peak, ring->heap.peak());
  }
  return statistics;
}

// ---- completing -----------------------------------------------------------------------------------------------------

// After each of the two steps that may retire a slot. The step was a seq_cst read-modify-write, this a seq_cst load: either it
// sees that the submitter waits for the slot, or the submitter's check, which follows its announcement, sees the step.
inline void Engine::wake_submitter(const TaskSlot &slot) {
  if (awaited_.load(std::memory_order_seq_cst) == &slot) bell_.ring();
}

inline void Engine::finish(TaskSlot &task, Outcome outcome, TaskSlot *&ready, TaskSlot *&skipped) {
  const bool failed = outcome != Outcome::kDone;
  if (failed) {
    std::atomic<uint64_t> &counter = outcome == Outcome::kFailed    ? failed_
                                     : outcome == Outcome::kSkipped ? skipped_
                                                                    : cancelled_;
    counter.fetch_add(1, std::memory_order_relaxed);
  }
  if (task.hold_count != 0) release_holds(task);
  task.outcome.store(outcome, std::memory_order_relaxed);  // published by the exchange
  // seq_cst: publishes the task's data and outcome to whoever finds the list closed, takes the edges' fields, and pairs with the
  // submitter's store to awaited_.
  Edge *edge = task.fan_out.exchange(closed_fan_out(), std::memory_order_seq_cst);
  // From here on the slot may be another task's: only its address is used.
  wake_submitter(task);
  while (edge != nullptr) {
    // Read before the decrement: after it the consumer may run, retire and be reused, and the edge with it.
    Edge *next = edge->next;
    TaskSlot *consumer = edge->slot;
    if (failed) consumer->poisoned.store(true, std::memory_order_relaxed);  // published by the decrement
    // acq_rel: hands the data of all producers to whoever runs the consumer.
    if (consumer->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      TaskSlot *&list = consumer->poisoned.load(std::memory_order_relaxed) ? skipped : ready;
      consumer->next_ready = list;  // the list is newest first: pushing to the front gives oldest first
      list = consumer;
    }
    edge = next;
  }
}

void Engine::release_holds(TaskSlot &task) {
  const uint32_t inline_holds = std::min(task.hold_count, kInlineHolds);
  for (uint32_t i = 0; i < inline_holds; i++) release(*task.holds[i]);
  for (Edge *hold = task.more_holds; hold != nullptr;) {
    Edge *next = hold->next;
    release(*hold->slot);
    hold = next;
  }
}

void Engine::release(TaskSlot &slot) {
  // seq_cst: releases what this thread did with the memory, and pairs with the submitter's store to awaited_.
  slot.references.fetch_sub(1, std::memory_order_seq_cst);
  wake_submitter(slot);
}

TaskSlot *Engine::complete(TaskSlot &task, Outcome outcome) {
  TaskSlot *ready = nullptr;
  TaskSlot *skipped = nullptr;
  finish(task, outcome, ready, skipped);
  // Skipping a task may make its own dependents ready to be skipped: a list, not recursion.
  while (skipped != nullptr) {
    TaskSlot *next = skipped;
    skipped = next->next_ready;
    finish(*next, Outcome::kSkipped, ready, skipped);
  }
  return ready;
}

}  // namespace simpler::graph
