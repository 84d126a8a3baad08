// simpler_worker_submit, _run, simpler_run_*.
#include "api/guard.h"
#include "base/clock.h"
#include "host/worker.h"

using namespace simpler;
using namespace simpler::api;
using host::BufferState;
using host::CallableHandle;
using host::HandleKind;
using host::Run;
using host::RunRequest;
using host::Worker;

namespace {

constexpr size_t kLabelBytesMax = 1023;

RunRequest make_request(const std::shared_ptr<Worker> &worker, const simpler_task *task,
                        const simpler_run_options *options) {
  const simpler_task task_defaults = SIMPLER_TASK_INIT;
  const simpler_task known = read_struct(require(task, "task"), task_defaults, "task");
  RunRequest request;
  if (known.reserved != 0) throw_error(SIMPLER_INVALID_ARGUMENT, "task.reserved is {}; it must be 0", known.reserved);
  request.callable = host::find<CallableHandle>(HandleKind::kCallable, known.callable, "task.callable");
  if (request.callable->worker.lock() != worker)
    throw_error(SIMPLER_INVALID_HANDLE, "task.callable: it belongs to another worker");
  request.chip = known.chip;
  if (known.tensor_count > SIMPLER_TENSORS_MAX)
    throw_error(SIMPLER_CAPACITY_ARGUMENTS, "task.tensor_count is {}; at most {} are allowed", known.tensor_count,
                SIMPLER_TENSORS_MAX);
  if (known.scalar_count > SIMPLER_SCALARS_MAX)
    throw_error(SIMPLER_CAPACITY_ARGUMENTS, "task.scalar_count is {}; at most {} are allowed", known.scalar_count,
                SIMPLER_SCALARS_MAX);
  if (known.tensor_count != 0) require(known.tensors, "task.tensors");
  if (known.scalar_count != 0) require(known.scalars, "task.scalars");
  request.tensors = {known.tensors, known.tensor_count};
  request.scalars = {known.scalars, known.scalar_count};
  request.buffers.resize(known.tensor_count);
  for (uint32_t i = 0; i < known.tensor_count; i++) {
    if (known.tensors[i].buffer == nullptr) continue;
    request.buffers[i] = host::find<BufferState>(HandleKind::kBuffer, known.tensors[i].buffer, "task.tensors[].buffer");
    if (request.buffers[i]->worker.lock() != worker)
      throw_error(SIMPLER_INVALID_HANDLE, "task.tensors[{}].buffer: it belongs to another worker", i);
  }
  if (options != nullptr) {
    const simpler_run_options option_defaults = SIMPLER_RUN_OPTIONS_INIT;
    const simpler_run_options known_options = read_struct(options, option_defaults, "options");
    if (known_options.reserved != 0)
      throw_error(SIMPLER_INVALID_ARGUMENT, "options.reserved is {}; it must be 0", known_options.reserved);
    if (known_options.label != nullptr)
      request.label = std::string(known_options.label, strnlen(known_options.label, kLabelBytesMax));
    request.window = known_options.window;
    request.heap_bytes = known_options.heap_bytes;
    request.seed = known_options.seed;
    if (request.window != 0 && (request.window < 4 || (request.window & (request.window - 1)) != 0))
      throw_error(SIMPLER_INVALID_ARGUMENT, "options.window is {}; allowed are powers of two from 4 to {}, or 0",
                  request.window, worker->config().window);
    if (request.heap_bytes != 0 && request.heap_bytes < 4096)
      throw_error(SIMPLER_INVALID_ARGUMENT, "options.heap_bytes is {}; allowed are 4096 to {}, or 0", request.heap_bytes,
                  worker->config().heap_bytes);
  }
  return request;
}

// Waits and throws the run's own error; false at the deadline.
bool wait_for(Run &run, uint64_t deadline_ns) {
  if (!run.has_ended()) {
    // A queue that is gone has ended its runs.
    const std::shared_ptr<host::ChipQueue> queue = run.queue.lock();
    if (queue != nullptr && !queue->wait(run, deadline_ns)) return false;
    if (queue == nullptr && !run.bell.wait(deadline_ns, [&run] { return run.has_ended(); })) return false;
  }
  if (!run.error.ok()) throw Error(run.error);
  return true;
}

}  // namespace

extern "C" {

simpler_status simpler_worker_submit(simpler_worker *worker, const simpler_task *task, const simpler_run_options *options,
                                     simpler_run **run, simpler_error **err) {
  if (run != nullptr) *run = nullptr;
  return guard(err, [&] {
    refuse_in_callback("simpler_worker_submit");
    const auto object = host::find<Worker>(HandleKind::kWorker, worker, "worker");
    require(run, "run");
    // The analyzer takes the store through `run` above for one that may reach `object`.
    std::shared_ptr<Run> submitted = object->submit(  // NOLINT(clang-analyzer-core.CallAndMessage)
        make_request(object, task, options));
    *run = static_cast<simpler_run *>(host::add_handle(HandleKind::kRun, std::move(submitted)));
  });
}

simpler_status simpler_worker_run(simpler_worker *worker, const simpler_task *task, const simpler_run_options *options,
                                  simpler_error **err) {
  return guard(err, [&] {
    refuse_in_callback("simpler_worker_run");
    const auto object = host::find<Worker>(HandleKind::kWorker, worker, "worker");
    const std::shared_ptr<Run> run = object->submit(make_request(object, task, options));
    wait_for(*run, kForever);
  });
}

simpler_status simpler_run_wait(simpler_run *run, uint64_t timeout_ns, simpler_error **err) {
  return guard(err, [&] {
    refuse_in_callback("simpler_run_wait");
    const auto object = host::find<Run>(HandleKind::kRun, run, "run");
    const uint64_t deadline = deadline_after(timeout_ns);
    if (!wait_for(*object, deadline))
      throw_error(SIMPLER_TIMEOUT, "the run{}{}{} has not ended within {} ns; it goes on", object->label.empty() ? "" : " '",
                  object->label, object->label.empty() ? "" : "'", timeout_ns);
  });
}

simpler_status simpler_run_get_stats(simpler_run *run, simpler_run_stats *stats, simpler_error **err) {
  return guard(err, [&] {
    const auto object = host::find<Run>(HandleKind::kRun, run, "run");
    simpler_run_stats value = SIMPLER_RUN_STATS_INIT;
    value.chip = static_cast<int32_t>(object->chip);
    if (object->has_ended()) {
      const control::RunCounts &counts = object->counts;
      value.state = object->error.ok()                        ? SIMPLER_RUN_DONE
                    : object->error.code == SIMPLER_CANCELLED ? SIMPLER_RUN_CANCELLED
                                                              : SIMPLER_RUN_FAILED;
      value.tasks_submitted = counts.tasks_submitted;
      value.tasks_done = counts.tasks_done;
      value.tasks_failed = counts.tasks_failed;
      value.tasks_skipped = counts.tasks_skipped;
      value.dependencies = counts.dependencies;
      value.window_peak = counts.window_peak;
      value.heap_bytes_peak = counts.heap_bytes_peak;
      if (counts.started_ns != 0) {
        value.queued_ns = counts.started_ns > object->submitted_ns ? counts.started_ns - object->submitted_ns : 0;
        value.running_ns = counts.ended_ns - counts.started_ns;
      }
    } else {
      const std::shared_ptr<host::ChipQueue> queue = object->queue.lock();
      value.state = queue != nullptr && queue->is_running(*object) ? SIMPLER_RUN_RUNNING : SIMPLER_RUN_QUEUED;
    }
    write_struct(require(stats, "stats"), value, "stats");
  });
}

simpler_status simpler_run_release(simpler_run *run, simpler_error **err) {
  return guard(err, [&] {
    if (run == nullptr) return;
    host::remove_handle(HandleKind::kRun, run, "run");
  });
}

}  // extern "C"
