// One execution of a callable on a chip: what the handle of a run stands for.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/wait.h"
#include "control/link.h"
#include "host/registry.h"
#include "host/staging.h"

namespace simpler::host {

struct BufferState;
class ChipQueue;

struct Run {
  // Fixed at submit.
  uint64_t id = 0;
  std::weak_ptr<ChipQueue> queue;
  uint32_t chip = 0;
  std::string label;
  std::string callable_name;
  uint64_t submitted_ns = 0;

  // What it uses; belongs to the submitting thread first, then to the thread that finishes the run, which gives all of it back.
  std::shared_ptr<CallableEntry> callable;
  std::vector<std::shared_ptr<BufferState>> buffers;
  std::optional<StagingPlan> staging;
  std::optional<uint64_t> gm_offset;  // of the staged tensors' piece of GM; none: nothing is staged

  // Written by the finishing thread before `ended`.
  ErrorInfo error;
  control::RunCounts counts;

  // seq_cst: the condition of waits on `bell`; publishes the above and the outputs.
  std::atomic<bool> ended{false};
  Doorbell bell;

  bool has_ended() const { return ended.load(std::memory_order_seq_cst); }
};

}  // namespace simpler::host
