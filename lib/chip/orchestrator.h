// The AICPU's orchestrator: a thread ("simpler-orch") that takes runs from the link, one after the other, has their orchestrations build
// their graphs, waits for the graphs to end, and reports.
//
// While it waits for tasks it runs tasks itself, as worker 0 of the scheduler. Everything that belongs to a run is made anew
// for it, so that run 2 behaves like run 1.
//
// Threads: start and stop from the owner; all else is the orchestrator thread's.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "chip/callable_table.h"
#include "chip/graph_builder.h"
#include "chip/outbox.h"
#include "chip/scheduler.h"
#include "control/link.h"
#include "graph/engine.h"

namespace simpler::chip {

struct OrchestratorOptions {
  uint32_t chip = 0;
  uint32_t window = 0;      // largest that a run may ask for
  uint64_t heap_bytes = 0;  // largest that a run may ask for
};

class Orchestrator {
 public:
  // All references outlive the orchestrator. Starts the thread; throws SYSTEM_ERROR.
  Orchestrator(const OrchestratorOptions &options, const control::Link &link, std::span<std::byte> gm,
               const Geometry &geometry, const CallableTable &callables, graph::Engine &engine, Scheduler &scheduler,
               Outbox &outbox);
  // stop()
  ~Orchestrator();

  // Takes no further run, cancels the one at hand, and joins the thread; kernels that are executing are waited for. Idempotent.
  void stop();

 private:
  void loop();
  void take_run(std::span<const std::byte> body);
  control::CompletionRecord execute(const control::RunRecord &record);
  void check_arguments(const control::RunRecord &record);
  graph::RunLimits check_limits(const control::RunRecord &record) const;
  void build_graph(const Callable &callable, const control::RunRecord &record);
  void call_orchestration(const Callable &callable, const control::RunRecord &record);
  void submit_single_kernel(const Callable &callable, const control::RunRecord &record);

  const OrchestratorOptions options_;
  control::Link link_;
  const std::span<std::byte> gm_;
  const CallableTable &callables_;
  graph::Engine &engine_;
  Scheduler &scheduler_;
  Outbox &outbox_;
  GraphBuilder builder_;
  std::vector<simpler_tensor> tensors_;  // arguments of the run
  // Set once, by stop(); seq_cst, as it is a condition of waits on the chip's bell.
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace simpler::chip
