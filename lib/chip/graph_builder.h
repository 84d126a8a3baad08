// The AICPU's half of device.h: what an orchestration calls to build its graph. Checks every argument, copies the task into its payload,
// and hands it to the graph engine and the scheduler.
//
// A call that fails has failed the run: the first error is recorded with function, argument and reason, and every later call returns its
// status without effect. So does every call once a kernel has failed; tasks that were submitted before and do not depend on that one still
// run.
// No exception leaves a call, as the frames above may be C.
//
// Threads: the orchestrator thread only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chip/callable_table.h"
#include "chip/geometry.h"
#include "chip/outbox.h"
#include "chip/scheduler.h"
#include "graph/engine.h"
#include "simpler/device.h"

namespace simpler::chip {

class GraphBuilder {
 public:
  GraphBuilder(const Geometry &geometry, graph::Engine &engine, Scheduler &scheduler, Outbox &outbox);
  GraphBuilder(const GraphBuilder &) = delete;
  GraphBuilder &operator=(const GraphBuilder &) = delete;

  // A run of `callable`, which outlives it; the engine's run has begun.
  void begin_run(const Callable &callable);
  // From here on calls have no effect.
  void end_run();

  // What an orchestration gets.
  simpler_orch *handle() { return &handle_.base; }
  simpler_status submit(const simpler_kernel_task *task, simpler_task_id *id);
  // Records an error of the orchestration as a whole; the first of the run counts.
  simpler_status fail(ErrorInfo error);
  simpler_status status() const { return status_; }

 private:
  struct Handle {
    simpler_orch base{};
    GraphBuilder *builder = nullptr;
  };
  static const simpler_orch_services kServices;
  static GraphBuilder &builder_of(simpler_orch *orch) { return *reinterpret_cast<Handle *>(orch)->builder; }

  simpler_status try_submit(const simpler_kernel_task *task, simpler_task_id *id);
  simpler_status scope_begin(simpler_scope_mode mode);
  simpler_status scope_end();
  simpler_status allocate(const char *function, simpler_tensor *tensor);
  simpler_status alloc_filled(simpler_tensor *tensor, uint64_t word);
  simpler_status read_scalar(const simpler_tensor *tensor, const uint64_t *index, uint64_t *word);
  simpler_status write_scalar(const simpler_tensor *tensor, const uint64_t *index, uint64_t word);

  // Whether calls have an effect; false once the run has failed, and status_ says why.
  bool is_open();
  // Waits until the element may be read, or written if `writes`.
  simpler_status await_element(const char *function, const simpler_tensor *tensor, const uint64_t *index, bool writes,
                               ElementPlace &place);

  template <class... Args>
  simpler_status refuse(simpler_status code, const char *function, fmt::format_string<Args...> format, Args &&...args);
  simpler_status fail_by_exception(const char *function, const char *what, uint32_t index);
  simpler_status check(const simpler_kernel_task &task);
  simpler_status check_tensors(const simpler_kernel_task &task);
  simpler_status find_kernels(const simpler_kernel_task &task, TaskPayload &header);
  simpler_status check_shape(const simpler_kernel_task &task, TaskPayload &header);
  simpler_status check_predicate(const simpler_kernel_task &task, TaskPayload &header);
  void fill(graph::TaskSlot &slot, const simpler_kernel_task &task, const TaskPayload &header, size_t label_bytes);

  const Geometry geometry_;
  graph::Engine &engine_;
  Scheduler &scheduler_;
  Outbox &outbox_;
  Handle handle_;
  const Callable *callable_ = nullptr;
  const Kernel *last_kernel_ = nullptr;  // most tasks in a row use the same
  simpler_status status_ = SIMPLER_CLOSED;
  uint32_t ordinal_ = 0;
  Predicate predicate_{};                        // scratch of submit
  simpler_tensor predicate_element_{};           // scratch of submit
  std::vector<uint64_t> output_bytes_;           // scratch of submit
  std::vector<graph::HeapBlock> output_blocks_;  // scratch of submit
};

}  // namespace simpler::chip
