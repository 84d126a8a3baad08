#include "host/chip_queue.h"

#include <algorithm>
#include <csignal>
#include <pthread.h>
#include <system_error>

#include "base/error.h"

namespace simpler::host {

ChipQueue::ChipQueue(uint32_t chip, std::shared_ptr<SharedMemory> link_memory, Callbacks callbacks)
    : chip_(chip),
      link_memory_(std::move(link_memory)),
      link_(control::Link::create(link_memory_->data())),
      callbacks_(std::move(callbacks)) {}

ChipQueue::~ChipQueue() { stop(); }

void ChipQueue::start() {
  // The host's signal handlers are for its own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) sigdelset(&all, signal);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { pump_thread(); });
  } catch (const std::system_error &error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw_system_error(error.code().value(), "starting a completion pump");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// ---- submitting -----------------------------------------------------------------------------------------------------

void ChipQueue::submit(const std::shared_ptr<Run> &run, std::vector<std::byte> record) {
  if (record.size() > link_.to_chip.body_bytes_max())
    throw_error(SIMPLER_CAPACITY_ARGUMENTS, "the arguments of the task take {} bytes on the way to the chip; at most {} fit",
                record.size(), link_.to_chip.body_bytes_max());
  {
    const std::lock_guard lock(mutex_);
    if (!refusal_.ok()) throw Error(refusal_);
    runs_.emplace(run->id, run);
    if (!pending_.empty() || !link_.to_chip.push(control::RecordType::kRun, record))
      pending_.push_back({run, std::move(record)});
  }
  link_.header().chip_bell.ring();
}

void ChipQueue::push_pending() {
  bool pushed = false;
  {
    const std::lock_guard lock(mutex_);
    while (!pending_.empty() && link_.to_chip.push(control::RecordType::kRun, pending_.front().record)) {
      pending_.pop_front();
      pushed = true;
    }
  }
  if (pushed) link_.header().chip_bell.ring();
}

size_t ChipQueue::load() const {
  const std::lock_guard lock(mutex_);
  return runs_.size();
}

bool ChipQueue::is_lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

bool ChipQueue::is_running(const Run &run) const {
  return link_.header().running_run.load(std::memory_order_acquire) == run.id;
}

// ---- pumping --------------------------------------------------------------------------------------------------------

void ChipQueue::pump_thread() {
  char name[16];
  snprintf(name, sizeof name, "simpler-pump%u", chip_);
  pthread_setname_np(pthread_self(), name);
  PollBudget budget;
  while (!stopping_.load(std::memory_order_seq_cst)) {
    link_.header().host_bell.wait(kForever, budget,
                                  [this] { return stopping_.load(std::memory_order_seq_cst) || !link_.to_host.empty(); });
    pump(true);
  }
}

void ChipQueue::pump(bool wait_for_lock) {
  Taken taken;
  {
    std::unique_lock lock(pump_mutex_, std::defer_lock);
    if (wait_for_lock)
      lock.lock();
    else if (!lock.try_lock())
      return;
    take_records(taken);
  }
  // The host's callback and the copies of outputs: with no lock held.
  if (!taken.broken.ok()) callbacks_.broken(taken.broken);
  for (control::LogRecord &record : taken.logs) callbacks_.log(record.level, std::move(record.text));
  for (const std::shared_ptr<Run> &run : taken.ended) callbacks_.finish(*run);
  if (!taken.ended.empty()) push_pending();
}

// Under pump_mutex_.
void ChipQueue::take_records(Taken &taken) {
  try {
    control::RecordType type{};
    while (!broken_ && link_.to_host.pop(type, body_)) {
      if (type == control::RecordType::kLog) {
        taken.logs.push_back(control::decode_log(body_));
        continue;
      }
      if (type != control::RecordType::kCompletion)
        throw_error(SIMPLER_PROTOCOL_ERROR, "a record of type {}", static_cast<unsigned>(type));
      control::CompletionRecord record = control::decode_completion(body_);
      std::shared_ptr<Run> run;
      {
        const std::lock_guard lock(mutex_);
        const auto it = runs_.find(record.run);
        if (it != runs_.end()) {
          run = std::move(it->second);
          runs_.erase(it);
        }
      }
      // A run that was given up may still be completed by its chip; anything else is a lie.
      if (run == nullptr) {
        if (record.run == 0)
          throw_error(SIMPLER_PROTOCOL_ERROR, "the chip does not understand the host: {}", record.error.message);
        continue;
      }
      run->error = std::move(record.error);
      run->error.chip = run->error.ok() ? kNoChip : static_cast<int32_t>(chip_);
      run->counts = record.counts;
      taken.ended.push_back(std::move(run));
    }
  } catch (...) {
    broken_ = true;
    taken.broken = capture_current_exception();
    taken.broken.message = fmt::format("chip {} broke the protocol of its ring: {}", chip_, taken.broken.message);
    taken.broken.chip = static_cast<int32_t>(chip_);
  }
}

// ---- waiting --------------------------------------------------------------------------------------------------------

bool ChipQueue::wait(Run &run, uint64_t deadline_ns) {
  if (run.has_ended()) return true;
  Doorbell &bell = link_.header().host_bell;
  bell.take_over();
  uint64_t now = now_ns();
  const uint64_t poll_end = std::min(deadline_ns, now + PollBudget::kPollMaxNs);
  for (;;) {
    pump(false);
    if (run.has_ended()) break;
    now = now_ns();
    if (now >= poll_end) break;
    yield_cpu();
  }
  bell.give_back();
  pump(true);  // what came before the duty was given back; later records wake the pump thread
  return run.bell.wait(deadline_ns, [&run] { return run.has_ended(); });
}

// ---- ending ---------------------------------------------------------------------------------------------------------

std::vector<std::shared_ptr<Run>> ChipQueue::take_all_runs() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Run>> runs;
  runs.reserve(runs_.size());
  for (auto &[id, run] : runs_) runs.push_back(std::move(run));
  runs_.clear();
  pending_.clear();
  std::sort(runs.begin(), runs.end(), [](const auto &a, const auto &b) { return a->id < b->id; });
  return runs;
}

void ChipQueue::fail_runs(const std::vector<std::shared_ptr<Run>> &runs, const ErrorInfo &error) {
  for (const std::shared_ptr<Run> &run : runs) {
    run->error = error;
    run->error.callable = run->callable_name;
    run->error.task_label = run->label;
    callbacks_.finish(*run);
  }
}

void ChipQueue::lose(const ErrorInfo &error) {
  {
    const std::lock_guard lock(mutex_);
    lost_ = true;
    if (refusal_.ok()) refusal_ = error;
  }
  pump(true);  // what it completed before it died counts
  fail_runs(take_all_runs(), error);
}

std::shared_ptr<Run> ChipQueue::begin_close() {
  std::shared_ptr<Run> running;
  std::vector<std::shared_ptr<Run>> queued;
  ErrorInfo error;
  error.code = SIMPLER_CANCELLED;
  error.message = "the worker was closed before the run started";
  {
    const std::lock_guard lock(mutex_);
    refusal_.code = SIMPLER_CLOSED;
    refusal_.message = "the worker is closed";
    pending_.clear();
    // seq_cst: after the store the chip takes no further run; one that it took before shows in running_run, or is done.
    link_.header().stop.store(1, std::memory_order_seq_cst);
    const uint64_t current = link_.header().running_run.load(std::memory_order_seq_cst);
    for (auto it = runs_.begin(); it != runs_.end();) {
      if (it->first == current) {
        running = it->second;
        ++it;
      } else {
        queued.push_back(std::move(it->second));
        it = runs_.erase(it);
      }
    }
  }
  link_.header().chip_bell.ring();
  pump(true);
  fail_runs(queued, error);
  return running;
}

void ChipQueue::cancel_all(const ErrorInfo &error) { fail_runs(take_all_runs(), error); }

void ChipQueue::stop() {
  stopping_.store(true, std::memory_order_seq_cst);
  if (!thread_.joinable()) return;
  link_.header().host_bell.ring_always();
  thread_.join();
}

}  // namespace simpler::host
