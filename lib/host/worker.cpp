#include "host/worker.h"

#include <algorithm>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/signals.h"

namespace simpler::host {

// ---- start ----------------------------------------------------------------------------------------------------------

Worker::Lease::Lease(Worker &worker) : worker_(worker) {
  // seq_cst: close() sets the state first and then looks at the leases; one of the two sees the other.
  worker_.leases_.fetch_add(1, std::memory_order_seq_cst);
  if (worker_.state_.load(std::memory_order_seq_cst) == State::kOpen) return;
  if (worker_.leases_.fetch_sub(1, std::memory_order_seq_cst) == 1) worker_.state_changed_.ring();
  throw_error(SIMPLER_CLOSED, "the worker is closed");
}

Worker::Lease::~Lease() {
  if (worker_.leases_.fetch_sub(1, std::memory_order_seq_cst) == 1) worker_.state_changed_.ring();
}

Worker::Worker(const WorkerConfig &config, std::unique_ptr<LogSink> log)
    : config_(config), log_(std::move(log)), allocator_(config.gm_bytes) {}

std::shared_ptr<Worker> Worker::create(const WorkerConfig &config, std::unique_ptr<LogSink> log) {
  std::shared_ptr<Worker> worker(new Worker(config, std::move(log)));
  try {
    worker->start();
  } catch (...) {
    worker->close();
    throw;
  }
  return worker;
}

void Worker::start() {
  const std::string path = config_.in_process ? std::string() : find_chip_executable(config_.chip_path);
  gm_ = std::make_shared<SharedMemory>(SharedMemory::create("simpler-gm", config_.gm_bytes + Signals::kPageBytes));
  registry_ = std::make_unique<Registry>(config_.callable_capacity, [this] { return live_ports(); });
  if (!config_.in_process) loop_ = std::make_unique<control::ControlLoop>();
  starting_.store(config_.chips, std::memory_order_relaxed);
  for (uint32_t i = 0; i < config_.chips; i++) chips_.push_back(std::make_unique<ChipSlot>());
  for (uint32_t i = 0; i < config_.chips; i++) start_chip(i, path);
  wait_for_start();
}

void Worker::start_chip(uint32_t index, const std::string &path) {
  ChipSlot &slot = *chips_[index];
  slot.link = std::make_shared<SharedMemory>(SharedMemory::create("simpler-link", control::kLinkBytes));
  ChipQueue::Callbacks callbacks;
  // The queue and its callbacks end before the worker does (close).
  callbacks.finish = [this](Run &run) { finish_run(run); };
  callbacks.log = [this, index](simpler_log_level level, std::string text) {
    log_->write(level, static_cast<int32_t>(index), std::move(text));
  };
  callbacks.broken = [this, index](const ErrorInfo &error) {
    log_->write(SIMPLER_LOG_ERROR, static_cast<int32_t>(index), error.message);
    chips_[index]->port->kill();
  };
  slot.queue = std::make_shared<ChipQueue>(index, slot.link, std::move(callbacks));
  slot.queue->start();

  ChipPortOptions options;
  options.config.chip = index;
  options.config.platform = config_.platform;
  options.config.clusters = config_.clusters;
  options.config.carriers = config_.carriers;
  options.config.callable_capacity = config_.callable_capacity;
  options.config.window = config_.window;
  options.config.heap_bytes = config_.heap_bytes;
  options.config.gm_bytes = config_.gm_bytes + Signals::kPageBytes;
  options.config.link_bytes = control::kLinkBytes;
  options.config.log_level = config_.log_level;
  options.config.is_seeded = config_.seed != 0;
  options.link = slot.link;
  options.gm = gm_;
  options.on_ready = [this, index](const ErrorInfo &error, const control::ChipReady &ready) {
    {
      const std::lock_guard lock(start_mutex_);
      chips_[index]->answered = true;
      chips_[index]->ready = ready;
      if (!error.ok() && start_error_.ok()) start_error_ = error;
    }
    if (!error.ok()) start_failed_.store(true, std::memory_order_seq_cst);
    starting_.fetch_sub(1, std::memory_order_seq_cst);
    chips_changed_.ring();
  };
  options.on_gone = [this, index](const control::ChipExit &exit) { on_gone(index, exit); };
  alive_.fetch_add(1, std::memory_order_seq_cst);
  try {
    slot.port = config_.in_process ? start_in_process_chip(std::move(options))
                                   : start_process_chip(*loop_, path, std::move(options));
  } catch (...) {
    slot.gone.store(true, std::memory_order_seq_cst);
    alive_.fetch_sub(1, std::memory_order_seq_cst);
    throw;
  }
}

void Worker::wait_for_start() {
  const bool in_time = chips_changed_.wait(deadline_after(config_.start_limit_ns), [this] {
    return starting_.load(std::memory_order_seq_cst) == 0 || start_failed_.load(std::memory_order_seq_cst);
  });
  const std::lock_guard lock(start_mutex_);
  if (!start_error_.ok()) throw Error(start_error_);
  if (in_time) return;
  std::string missing;
  int32_t first_missing = kNoChip;
  for (uint32_t i = 0; i < config_.chips; i++) {
    if (chips_[i]->answered) continue;
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", i);
    if (first_missing == kNoChip) first_missing = static_cast<int32_t>(i);
  }
  ErrorInfo error;
  error.code = SIMPLER_START_LIMIT;
  error.chip = first_missing;
  error.message = fmt::format("of {} chips, these were not ready within start_limit_ns = {} ns: {}", config_.chips,
                              config_.start_limit_ns, missing);
  throw Error(std::move(error));
}

void Worker::on_gone(uint32_t index, const control::ChipExit &exit) {
  ChipSlot &slot = *chips_[index];
  slot.gone.store(true, std::memory_order_seq_cst);
  ErrorInfo error = exit.error;
  if (error.ok()) {
    error.code = SIMPLER_CANCELLED;
    error.chip = static_cast<int32_t>(index);
    error.message = "the worker was closed";
  }
  if (!exit.expected && state_.load(std::memory_order_seq_cst) == State::kOpen &&
      !start_failed_.load(std::memory_order_seq_cst))
    log_->write(SIMPLER_LOG_ERROR, kNoChip, error.message);
  slot.queue->lose(error);
  alive_.fetch_sub(1, std::memory_order_seq_cst);
  chips_changed_.ring();
}

// ---- close ----------------------------------------------------------------------------------------------------------

void Worker::close() {
  State expected = State::kOpen;
  if (!state_.compare_exchange_strong(expected, State::kClosing, std::memory_order_seq_cst)) {
    // Somebody else closes; that is bounded.
    state_changed_.wait(kForever, [this] { return state_.load(std::memory_order_seq_cst) == State::kClosed; });
    return;
  }
  const uint64_t deadline = deadline_after(config_.close_limit_ns);
  std::vector<std::pair<std::shared_ptr<ChipQueue>, std::shared_ptr<Run>>> running;
  for (const std::unique_ptr<ChipSlot> &slot : chips_) {
    if (slot->queue == nullptr) continue;
    if (std::shared_ptr<Run> run = slot->queue->begin_close()) running.emplace_back(slot->queue, std::move(run));
  }
  for (const auto &[queue, run] : running) queue->wait(*run, deadline);
  ErrorInfo cancelled;
  cancelled.code = SIMPLER_CANCELLED;
  cancelled.message =
      fmt::format("the worker was closed, and the run did not end within close_limit_ns = {} ns", config_.close_limit_ns);
  for (const std::unique_ptr<ChipSlot> &slot : chips_) {
    if (slot->queue != nullptr) slot->queue->cancel_all(cancelled);
  }
  const uint64_t now = now_ns();
  shut_down(deadline == kForever ? kForever / 2 : (deadline > now ? deadline - now : 0));
  // Calls that were waiting for chips have been answered by their end.
  state_changed_.wait(kForever, [this] { return leases_.load(std::memory_order_seq_cst) == 0; });
  for (const std::unique_ptr<ChipSlot> &slot : chips_) {
    if (slot->queue != nullptr) slot->queue->stop();
  }
  loop_.reset();
  for (const std::unique_ptr<ChipSlot> &slot : chips_) slot->port.reset();
  std::set<std::pair<void *, HandleKind>> handles;
  {
    const std::lock_guard lock(handles_mutex_);
    handles.swap(handles_);
  }
  for (const auto &[handle, kind] : handles) {
    try {
      remove_handle(kind, handle, "handle");
    } catch (const Error &) {
      // Ended by its owner at the same time.
    }
  }
  gm_.reset();
  state_.store(State::kClosed, std::memory_order_seq_cst);
  state_changed_.ring();
}

void Worker::shut_down(uint64_t grace_ns) {
  for (const std::unique_ptr<ChipSlot> &slot : chips_) {
    if (slot->port == nullptr || slot->gone.load(std::memory_order_seq_cst)) continue;
    // A start that failed or is not over gets no grace: there is nothing to finish.
    slot->port->shut_down(grace_ns);
  }
  // Ends for sure: a process is killed after its grace, threads are given up.
  chips_changed_.wait(kForever, [this] { return alive_.load(std::memory_order_seq_cst) == 0; });
}

Worker::~Worker() { close(); }

// ---- callables ------------------------------------------------------------------------------------------------------

std::vector<std::shared_ptr<ChipPort>> Worker::live_ports() const {
  std::vector<std::shared_ptr<ChipPort>> ports;
  for (const std::unique_ptr<ChipSlot> &slot : chips_) {
    if (slot->port != nullptr && !slot->gone.load(std::memory_order_seq_cst)) ports.push_back(slot->port);
  }
  return ports;
}

std::shared_ptr<CallableHandle> Worker::register_callable(const simpler_callable_desc &desc) {
  const Lease lease(*this);
  auto handle = std::make_shared<CallableHandle>();
  handle->worker = weak_from_this();
  handle->entry = registry_->add(desc);
  return handle;
}

void Worker::unregister(CallableHandle &callable) {
  const Lease lease(*this);
  registry_->remove(callable.entry);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

uint64_t Worker::allocate_gm(uint64_t bytes, const char *purpose) {
  const std::optional<uint64_t> offset = allocator_.allocate(bytes);
  if (!offset)
    throw_error(
        SIMPLER_CAPACITY_MEMORY,
        "no room for {} of {} bytes in GM: used {} of {} bytes, largest free piece {}; release buffers or raise the option "
        "`gm_bytes`",
        purpose, bytes, allocator_.used(), allocator_.capacity(), allocator_.largest_free());
  return *offset;
}

std::shared_ptr<BufferState> Worker::create_buffer(uint64_t bytes) {
  const Lease lease(*this);
  if (bytes == 0) throw_error(SIMPLER_INVALID_ARGUMENT, "bytes is 0; a buffer has at least 1");
  auto buffer = std::make_shared<BufferState>();
  buffer->worker = weak_from_this();
  uint64_t dirty = 0;
  {
    const std::lock_guard lock(memory_mutex_);
    buffer->gm_offset = allocate_gm(bytes, "a buffer");
    dirty = allocator_.dirty_bytes(buffer->gm_offset, bytes);
  }
  buffer->bytes = bytes;
  buffer->data = gm_->data() + buffer->gm_offset;
  if (dirty != 0) gm_->zero(buffer->gm_offset, dirty);
  return buffer;
}

void Worker::release_buffer(BufferState &buffer) {
  const Lease lease(*this);
  const std::lock_guard lock(memory_mutex_);
  if (buffer.released) throw_error(SIMPLER_INVALID_HANDLE, "buffer: it has been released already");
  if (buffer.runs != 0)
    throw_error(SIMPLER_BUSY, "the buffer of {} bytes is in use by {} run{}; release it when they have ended", buffer.bytes,
                buffer.runs, buffer.runs == 1 ? "" : "s");
  buffer.released = true;
  allocator_.free(buffer.gm_offset, buffer.bytes);
}

// ---- runs -----------------------------------------------------------------------------------------------------------

uint32_t Worker::pick_chip(int32_t wanted) const {
  if (wanted != SIMPLER_CHIP_ANY) {
    if (wanted < 0 || static_cast<uint32_t>(wanted) >= config_.chips)
      throw_error(SIMPLER_INVALID_ARGUMENT, "task.chip is {}; this worker has chips 0 to {} (or SIMPLER_CHIP_ANY, -1)",
                  wanted, config_.chips - 1);
    return static_cast<uint32_t>(wanted);
  }
  uint32_t best = 0;
  size_t best_load = SIZE_MAX;
  for (uint32_t i = 0; i < config_.chips; i++) {
    if (chips_[i]->gone.load(std::memory_order_seq_cst)) continue;
    const size_t load = chips_[i]->queue->load();
    if (load < best_load) {
      best = i;
      best_load = load;
    }
  }
  return best;  // if all are lost, the first one's queue tells why
}

namespace {

// 0 when the worker is not seeded. splitmix64's last steps spread seeds and numbers that are close to each other.
uint64_t seed_of(const WorkerConfig &config, const RunRequest &request, uint64_t run) {
  if (config.seed == 0 || request.seed != 0) return request.seed;
  uint64_t seed = config.seed + run * 0x9E3779B97F4A7C15u;
  seed = (seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9u;
  seed = (seed ^ (seed >> 27)) * 0x94D049BB133111EBu;
  seed ^= seed >> 31;
  return seed != 0 ? seed : 1;
}

void check_signature(const RunRequest &request) {
  const std::vector<simpler_parameter> &signature = request.callable->entry->signature;
  if (signature.empty()) return;
  size_t tensor = 0;
  size_t scalar = 0;
  for (const simpler_parameter parameter : signature) {
    if (parameter == SIMPLER_PARAMETER_SCALAR) {
      scalar++;
      continue;
    }
    if (tensor < request.tensors.size()) {
      const simpler_tag tag = request.tensors[tensor].tag;
      const simpler_tag wanted = parameter == SIMPLER_PARAMETER_IN    ? SIMPLER_TAG_INPUT
                                 : parameter == SIMPLER_PARAMETER_OUT ? SIMPLER_TAG_OUTPUT_EXISTING
                                                                      : SIMPLER_TAG_INOUT;
      if (tag != wanted)
        throw_error(SIMPLER_INVALID_ARGUMENT, "task.tensors[{}].tag is {}; the callable's signature says {}", tensor, tag,
                    wanted);
    }
    tensor++;
  }
  if (tensor != request.tensors.size() || scalar != request.scalars.size())
    throw_error(SIMPLER_INVALID_ARGUMENT, "the task has {} tensors and {} scalars; the callable's signature has {} and {}",
                request.tensors.size(), request.scalars.size(), tensor, scalar);
}

}  // namespace

std::shared_ptr<Run> Worker::submit(const RunRequest &request) {
  const Lease lease(*this);
  check_signature(request);
  if (request.seed != 0 && config_.seed == 0)
    throw_error(SIMPLER_INVALID_ARGUMENT, "run option seed is {}; this worker was made without the option seed",
                request.seed);
  if (request.window > config_.window)
    throw_error(SIMPLER_INVALID_ARGUMENT, "run option window is {}; this worker was made with {}", request.window,
                config_.window);
  if (request.heap_bytes > config_.heap_bytes)
    throw_error(SIMPLER_INVALID_ARGUMENT, "run option heap_bytes is {}; this worker was made with {}", request.heap_bytes,
                config_.heap_bytes);
  const uint32_t chip = pick_chip(request.chip);
  std::vector<BufferPlace> places(request.tensors.size());
  for (size_t i = 0; i < places.size(); i++) {
    if (request.buffers[i] != nullptr) places[i] = {request.buffers[i]->gm_offset, request.buffers[i]->bytes};
  }

  auto run = std::make_shared<Run>();
  run->id = next_run_.fetch_add(1, std::memory_order_relaxed);
  run->queue = chips_[chip]->queue;
  run->chip = chip;
  run->label = request.label;
  run->submitted_ns = now_ns();
  run->callable_name = request.callable->entry->loaded.name;
  run->staging.emplace(request.tensors, places);

  // From here on things are taken that have to be given back if anything fails.
  registry_->begin_run(*request.callable->entry);
  run->callable = request.callable->entry;
  try {
    {
      const std::lock_guard lock(memory_mutex_);
      for (const std::shared_ptr<BufferState> &buffer : request.buffers) {
        if (buffer == nullptr) continue;
        if (buffer->released) throw_error(SIMPLER_INVALID_HANDLE, "a buffer of the task has been released already");
        run->buffers.push_back(buffer);
        buffer->runs++;
      }
      if (run->staging->bytes() != 0) run->gm_offset = allocate_gm(run->staging->bytes(), "the staged tensors of a task");
    }
    const uint64_t gm_offset = run->gm_offset.value_or(0);
    run->staging->copy_in(gm_->data(), gm_offset);
    control::RunRecord record;
    record.run = run->id;
    record.cid = run->callable->cid;
    record.generation = run->callable->generation;
    record.window = request.window;
    record.seed = seed_of(config_, request, run->id);
    record.heap_bytes = request.heap_bytes;
    record.tensors = run->staging->place(gm_offset);
    record.scalars.assign(request.scalars.begin(), request.scalars.end());
    record.label = request.label;
    chips_[chip]->queue->submit(run, encode(record));
  } catch (...) {
    give_back(*run);
    throw;
  }
  return run;
}

void Worker::give_back(Run &run) {
  {
    const std::lock_guard lock(memory_mutex_);
    for (const std::shared_ptr<BufferState> &buffer : run.buffers) buffer->runs--;
    if (run.gm_offset) allocator_.free(*run.gm_offset, run.staging->bytes());
  }
  run.buffers.clear();
  if (run.callable != nullptr) registry_->end_run(run.callable);
  run.callable.reset();
}

void Worker::finish_run(Run &run) {
  if (run.error.ok()) {
    run.staging->copy_out(gm_->data(), run.gm_offset.value_or(0));
  } else {
    if (run.error.callable.empty()) run.error.callable = run.callable_name;
    if (run.error.task_label.empty()) run.error.task_label = run.label;
  }
  give_back(run);
  run.staging.reset();
  run.ended.store(true, std::memory_order_seq_cst);
  run.bell.ring();
}

// ---- facts ----------------------------------------------------------------------------------------------------------

simpler_worker_info Worker::info() const {
  simpler_worker_info info = SIMPLER_WORKER_INFO_INIT;
  info.chips = config_.chips;
  info.clusters_per_chip = config_.clusters;
  {
    const std::lock_guard lock(start_mutex_);
    info.carriers_per_chip = chips_.front()->ready.carriers;
  }
  info.callables = registry_->loaded();
  const std::lock_guard lock(memory_mutex_);
  info.gm_bytes = allocator_.capacity();
  info.gm_bytes_used = allocator_.used();
  return info;
}

int64_t Worker::chip_pid(uint32_t chip) const {
  if (chip >= config_.chips)
    throw_error(SIMPLER_INVALID_ARGUMENT, "chip is {}; this worker has chips 0 to {}", chip, config_.chips - 1);
  const std::shared_ptr<ChipPort> port = chips_[chip]->port;
  return port != nullptr ? port->pid() : 0;
}

void Worker::adopt_handle(HandleKind kind, void *handle) {
  const std::lock_guard lock(handles_mutex_);
  handles_.emplace(handle, kind);
}

void Worker::forget_handle(void *handle) {
  const std::lock_guard lock(handles_mutex_);
  const auto it = handles_.lower_bound({handle, HandleKind{}});
  if (it != handles_.end() && it->first == handle) handles_.erase(it);
}

}  // namespace simpler::host
