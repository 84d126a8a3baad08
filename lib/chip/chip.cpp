#include "chip/chip.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/cpu_budget.h"
#include "base/error.h"
#include "chip/callable_table.h"
#include "chip/carrier_pool.h"
#include "chip/geometry.h"
#include "chip/handshake.h"
#include "chip/heap_memory.h"
#include "chip/orchestrator.h"
#include "chip/outbox.h"
#include "chip/registers.h"
#include "chip/scheduler.h"
#include "graph/engine.h"

namespace simpler::chip {

namespace {

constexpr uint32_t kWindowDefault = 4096;
constexpr uint32_t kWindowMin = 4;
constexpr uint32_t kWindowMax = 1u << 20;
constexpr uint64_t kHeapBytesDefault = 256u << 20;
constexpr uint64_t kHeapBytesMin = graph::ByteRing::kAlignment;
constexpr uint64_t kHeapBytesMax = uint64_t{1} << 40;
constexpr uint32_t kCallablesDefault = 1024;
constexpr uint32_t kCallablesMax = 1u << 20;
// Tasks that the orchestrator thread runs before it looks whether what it waits for has come.
constexpr uint64_t kHelpTasksMax = 64;

template <class T>
T check_range(const char *name, T value, T fallback, T min, T max) {
  if (value == 0) return fallback;
  if (value < min || value > max)
    throw_error(SIMPLER_INVALID_ARGUMENT, "{}: {} asked for, {} to {} are allowed", name, value, min, max);
  return value;
}

// The configuration with every default filled in. Throws INVALID_ARGUMENT naming the field.
control::ChipConfig complete_config(control::ChipConfig config, const Geometry &geometry) {
  config.clusters = geometry.clusters();
  // In seeded mode the orchestrator thread does everything. More carriers than cores have nothing to do.
  config.carriers = config.is_seeded       ? 0
                    : config.carriers == 0 ? std::min(usable_cpus(), geometry.cores())
                                           : check_range("carriers", config.carriers, 0u, 1u, geometry.cores());
  config.callable_capacity =
      check_range("callable_capacity", config.callable_capacity, kCallablesDefault, 1u, kCallablesMax);
  config.window = std::bit_ceil(check_range("window", config.window, kWindowDefault, kWindowMin, kWindowMax));
  config.heap_bytes = graph::ByteRing::round_up(
      check_range("heap_bytes", config.heap_bytes, kHeapBytesDefault, kHeapBytesMin, kHeapBytesMax));
  return config;
}

}  // namespace

// Members are destroyed in reverse order: the engine after everything that calls it, the heap after the engine.
class Chip::Impl {
 public:
  Impl(const control::ChipConfig &config, const control::Link &link, std::span<std::byte> gm)
      : geometry_(config.platform, config.clusters),
        config_(complete_config(config, geometry_)),
        registers_(geometry_.cores()),
        outbox_(link, config_.log_level),
        callables_(config_.callable_capacity),
        scheduler_({config_.chip, config_.carriers + 1, geometry_.cores(), config_.window, config_.is_seeded, Signals(gm)},
                   geometry_, registers_, outbox_),
        engine_(engine_options()) {
    start_cores(registers_, geometry_, [this](uint32_t i) { step_core(registers_[i], geometry_.core(i)); });
    carriers_ = std::make_unique<CarrierPool>(config_.carriers, config_.carriers + geometry_.cores(),
                                              CarrierWork{[this](uint32_t worker, const std::function<void()> &found) {
                                                            return scheduler_.run_some(worker, UINT64_MAX, &found);
                                                          },
                                                          [this] { return scheduler_.has_work(); }},
                                              reserve_);
    scheduler_.attach(engine_, *carriers_, reserve_);
    carriers_->start();
    orchestrator_ = std::make_unique<Orchestrator>(OrchestratorOptions{config_.chip, config_.window, config_.heap_bytes},
                                                   link, gm.first(gm.size() - Signals::kPageBytes), geometry_, callables_,
                                                   engine_, scheduler_, outbox_);
  }
  ~Impl() { stop(); }
  Impl(const Impl &) = delete;
  Impl &operator=(const Impl &) = delete;

  control::ChipReady ready() const { return {geometry_.clusters(), geometry_.cores(), config_.carriers}; }
  CallableTable &callables() { return callables_; }

  void stop() {
    if (is_stopped_) return;
    is_stopped_ = true;
    // The orchestrator first: it waits for the tasks of its run, which need the carriers.
    orchestrator_->stop();
    carriers_->stop();
    reserve_.stop();
    stop_cores(registers_, [this](uint32_t i) { step_core(registers_[i], geometry_.core(i)); });
  }

 private:
  graph::EngineOptions engine_options() {
    graph::EngineOptions options;
    options.window = config_.window;
    options.heap_bytes = config_.heap_bytes;
    options.heap_memory = [this](uint32_t depth, uint64_t bytes) { return heap_.map(depth, bytes); };
    options.help = [this] { return scheduler_.run_some(0, kHelpTasksMax, nullptr); };
    return options;
  }

  const Geometry geometry_;
  const control::ChipConfig config_;
  std::vector<CoreRegisters> registers_;
  Outbox outbox_;
  CallableTable callables_;
  HeapMemory heap_;
  Scheduler scheduler_;
  graph::Engine engine_;
  ThreadReserve reserve_;
  std::unique_ptr<CarrierPool> carriers_;
  std::unique_ptr<Orchestrator> orchestrator_;
  bool is_stopped_ = false;
};

Chip::Chip(const control::ChipConfig &config, control::Link link, std::span<std::byte> gm)
    : impl_(std::make_unique<Impl>(config, link, gm)) {}

Chip::~Chip() {
  impl_.reset();
  // The chip's threads have ended, and with them what their thread-local objects held in memory.
  process_loader().release_pinned();
}

control::ChipReady Chip::ready() const { return impl_->ready(); }

control::LoadedCallable Chip::load(uint32_t cid, uint32_t generation, const control::CallableManifest &manifest,
                                   UniqueFd images) {
  const std::shared_ptr<const Callable> callable = impl_->callables().load(cid, generation, manifest, images);
  return {callable->name(), static_cast<uint32_t>(callable->kernels().size()), callable->orchestration() != nullptr};
}

void Chip::unload(uint32_t cid, uint32_t generation) { impl_->callables().unload(cid, generation); }

void Chip::stop() { impl_->stop(); }

}  // namespace simpler::chip
