#include "chip/orchestrator.h"

#include <bit>
#include <pthread.h>
#include <system_error>

#include "base/clock.h"
#include "base/error.h"
#include "chip/tensor_check.h"

namespace simpler::chip {

namespace {

constexpr uint32_t kWindowMin = 4;

}  // namespace

Orchestrator::Orchestrator(const OrchestratorOptions &options, const control::Link &link, std::span<std::byte> gm,
                           const Geometry &geometry, const CallableTable &callables, graph::Engine &engine,
                           Scheduler &scheduler, Outbox &outbox)
    : options_(options),
      link_(link),
      gm_(gm),
      callables_(callables),
      engine_(engine),
      scheduler_(scheduler),
      outbox_(outbox),
      builder_(geometry, engine, scheduler, outbox) {
  try {
    thread_ = std::thread([this] { loop(); });
    pthread_setname_np(thread_.native_handle(), "simpler-orch");
  } catch (const std::system_error &error) {
    throw_system_error(error.code().value(), "starting the orchestrator thread");
  }
}

Orchestrator::~Orchestrator() { stop(); }

void Orchestrator::stop() {
  stopping_.store(true, std::memory_order_seq_cst);
  link_.header().stop.store(1, std::memory_order_seq_cst);
  engine_.stop();
  link_.header().chip_bell.ring();
  if (thread_.joinable()) thread_.join();
}

void Orchestrator::loop() {
  control::LinkHeader &header = link_.header();
  const auto is_over = [&] {
    return stopping_.load(std::memory_order_seq_cst) || header.stop.load(std::memory_order_seq_cst) != 0;
  };
  PollBudget budget;
  std::vector<std::byte> body;
  while (!is_over()) {
    try {
      control::RecordType type{};
      if (!link_.to_chip.pop(type, body)) {
        header.chip_bell.wait(kForever, budget, [&] { return is_over() || !link_.to_chip.empty(); });
        continue;
      }
      if (type != control::RecordType::kRun)
        throw_error(SIMPLER_PROTOCOL_ERROR, "record of type {} on the way to the chip", static_cast<uint32_t>(type));
      take_run(body);
    } catch (...) {
      // The link cannot be trusted any more. The host hears of it as the end of a run that does not exist.
      ErrorInfo error = capture_current_exception();
      error.chip = static_cast<int32_t>(options_.chip);
      control::CompletionRecord completion;
      completion.error = std::move(error);
      outbox_.complete(completion);
      return;
    }
  }
}

void Orchestrator::take_run(std::span<const std::byte> body) {
  const control::RunRecord record = control::decode_run(body);
  control::LinkHeader &header = link_.header();
  header.running_run.store(record.run, std::memory_order_release);
  const control::CompletionRecord completion = execute(record);
  header.running_run.store(0, std::memory_order_release);
  outbox_.complete(completion);
}

// ---- one run --------------------------------------------------------------------------------------------------------

control::CompletionRecord Orchestrator::execute(const control::RunRecord &record) {
  control::CompletionRecord completion;
  completion.run = record.run;
  completion.counts.started_ns = now_ns();
  ErrorInfo &error = completion.error;
  try {
    // Held until the run has ended: an unload meanwhile frees the slot and leaves us the code.
    const std::shared_ptr<const Callable> callable = callables_.find(record.cid, record.generation);
    error.callable = callable->name();
    const graph::RunLimits limits = check_limits(record);
    check_arguments(record);
    scheduler_.begin_run(record.seed);
    engine_.begin_run(limits);
    if (stopping_.load(std::memory_order_seq_cst)) engine_.stop();  // begin_run has opened admission again
    engine_.scope_begin(graph::ScopeMode::kAuto);
    builder_.begin_run(*callable);
    build_graph(*callable, record);
    builder_.end_run();
    engine_.end_run();

    const graph::RunStatistics statistics = engine_.statistics();
    completion.counts.tasks_submitted = statistics.submitted;
    completion.counts.tasks_done = statistics.done;
    completion.counts.tasks_failed = statistics.failed;
    completion.counts.tasks_skipped = statistics.skipped;
    completion.counts.tasks_cancelled = statistics.cancelled;
    completion.counts.dependencies = statistics.dependencies;
    completion.counts.window_peak = statistics.window_peak;
    completion.counts.heap_bytes_peak = statistics.heap_bytes_peak;
    if (scheduler_.failure().has_failed()) {
      error = scheduler_.failure().error();
      error.callable = callable->name();
    } else if (statistics.cancelled != 0) {
      error.code = SIMPLER_CANCELLED;
      error.message = fmt::format("the run was cancelled with {} tasks not yet run", statistics.cancelled);
    }
  } catch (...) {
    std::string callable = std::move(error.callable);
    error = capture_current_exception();
    error.callable = std::move(callable);
    builder_.end_run();
  }
  if (!error.ok()) error.chip = static_cast<int32_t>(options_.chip);
  completion.counts.ended_ns = now_ns();
  return completion;
}

graph::RunLimits Orchestrator::check_limits(const control::RunRecord &record) const {
  graph::RunLimits limits;
  if (record.window > options_.window)
    throw_error(SIMPLER_INVALID_ARGUMENT, "run option window is {}, the worker was made with {}", record.window,
                options_.window);
  if (record.heap_bytes > options_.heap_bytes)
    throw_error(SIMPLER_INVALID_ARGUMENT, "run option heap_bytes is {}, the worker was made with {}", record.heap_bytes,
                options_.heap_bytes);
  // Rounded up as the chip's own are, which bound them.
  if (record.window != 0) limits.window = std::bit_ceil(std::max(record.window, kWindowMin));
  if (record.heap_bytes != 0) limits.heap_bytes = graph::ByteRing::round_up(record.heap_bytes);
  return limits;
}

void Orchestrator::check_arguments(const control::RunRecord &record) {
  tensors_.clear();
  if (record.tensors.size() > SIMPLER_TENSORS_MAX || record.scalars.size() > SIMPLER_SCALARS_MAX)
    throw_error(SIMPLER_CAPACITY_ARGUMENTS, "the run has {} tensors and {} scalars; at most {} and {} are allowed",
                record.tensors.size(), record.scalars.size(), SIMPLER_TENSORS_MAX, SIMPLER_SCALARS_MAX);
  for (size_t i = 0; i < record.tensors.size(); i++) {
    const control::TensorRecord &argument = record.tensors[i];
    if (argument.allocation_offset > gm_.size() || argument.allocation_bytes > gm_.size() - argument.allocation_offset ||
        argument.offset > gm_.size())
      throw_error(SIMPLER_INVALID_ARGUMENT,
                  "tensor argument {}: {} bytes at {} (first element at {}) are not inside of GM of {} bytes", i,
                  argument.allocation_bytes, argument.allocation_offset, argument.offset, gm_.size());
    simpler_tensor tensor;
    tensor.data = gm_.data() + argument.offset;
    tensor.allocation = gm_.data() + argument.allocation_offset;
    tensor.allocation_bytes = argument.allocation_bytes;
    tensor.owner = 0;
    tensor.dtype = argument.dtype;
    tensor.rank = argument.rank;
    for (uint32_t axis = 0; axis < SIMPLER_RANK_MAX; axis++) {
      tensor.shape[axis] = argument.shape[axis];
      tensor.strides[axis] = argument.strides[axis];
    }
    // Its memory exists: for the run as a whole an OUTPUT is an OUTPUT_EXISTING.
    const simpler_tag tag = argument.tag == SIMPLER_TAG_OUTPUT ? simpler_tag{SIMPLER_TAG_OUTPUT_EXISTING} : argument.tag;
    if (!is_sound_view(tensor, tag))
      throw_error(SIMPLER_INVALID_ARGUMENT, "tensor argument {}: {}", i, explain_view(tensor, tag));
    tensors_.push_back(tensor);
  }
}

void Orchestrator::build_graph(const Callable &callable, const control::RunRecord &record) {
  if (callable.orchestration() != nullptr) {
    call_orchestration(callable, record);
  } else {
    submit_single_kernel(callable, record);
  }
}

void Orchestrator::call_orchestration(const Callable &callable, const control::RunRecord &record) {
  const simpler_args args = {tensors_.data(), record.scalars.data(), static_cast<uint32_t>(tensors_.size()),
                             static_cast<uint32_t>(record.scalars.size())};
  ErrorInfo error;
  error.code = SIMPLER_ORCHESTRATION_FAILED;
  try {
    const int result = callable.orchestration()(builder_.handle(), &args);
    // What follows from an error that was reported is no news.
    if (builder_.status() != SIMPLER_OK) return;
    if (result != 0) {
      error.user_code = result;
      error.message = fmt::format("the orchestration returned {}", result);
      builder_.fail(std::move(error));
    } else if (engine_.scope_depth() != 1) {
      error.message =
          fmt::format("the orchestration returned with {} scopes open: each simpler_orch_scope_begin needs its end",
                      engine_.scope_depth() - 1);
      builder_.fail(std::move(error));
    }
  } catch (const std::exception &exception) {
    error.message = fmt::format("the orchestration threw an exception: {}", exception.what());
    builder_.fail(std::move(error));
  } catch (...) {
    error.message = "the orchestration threw an exception of a type that is no std::exception";
    builder_.fail(std::move(error));
  }
}

void Orchestrator::submit_single_kernel(const Callable &callable, const control::RunRecord &record) {
  const Kernel &kernel = callable.kernels().front();
  std::vector<simpler_task_tensor> arguments(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); i++) {
    const simpler_tag tag = record.tensors[i].tag;
    arguments[i] = {&tensors_[i], tag == SIMPLER_TAG_OUTPUT ? simpler_tag{SIMPLER_TAG_OUTPUT_EXISTING} : tag, 0};
  }
  simpler_kernel_task task = SIMPLER_KERNEL_TASK_INIT;
  (kernel.core_type == SIMPLER_CORE_AIC ? task.aic : task.aiv0) = kernel.id;
  task.tensors = arguments.data();
  task.tensor_count = static_cast<uint32_t>(arguments.size());
  task.scalars = record.scalars.data();
  task.scalar_count = static_cast<uint32_t>(record.scalars.size());
  task.label = record.label.c_str();
  builder_.submit(&task, nullptr);
}

}  // namespace simpler::chip
