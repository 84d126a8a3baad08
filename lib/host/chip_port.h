// The seam between a worker and one of its chips: a child process, or threads of this process. A chip backend for real hardware
// would be a third implementation.
//
// Requests are answered exactly once, by a callback on some thread of the library that must not block. Runs do not pass here:
// they go through the chip's link.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/shared_memory.h"
#include "control/chip_process.h"
#include "control/control_loop.h"
#include "control/messages.h"

namespace simpler::host {

class ChipPort {
 public:
  virtual ~ChipPort() = default;
  // Of the chip's process; this process's own for a chip in-process; 0 before it has started.
  virtual int64_t pid() const = 0;
  virtual void load(uint32_t cid, uint32_t generation, std::shared_ptr<const control::CallableManifest> manifest,
                    std::shared_ptr<const UniqueFd> images, control::RegisterReplyFn reply) = 0;
  virtual void unload(uint32_t cid, uint32_t generation, control::ReplyFn reply) = 0;
  // Ends the chip; on_gone tells when it is over, at most a little after grace_ns.
  virtual void shut_down(uint64_t grace_ns) = 0;
  // Ends it at once where that is possible.
  virtual void kill() = 0;
};

struct ChipPortOptions {
  control::ChipConfig config;
  std::shared_ptr<SharedMemory> link;
  std::shared_ptr<SharedMemory> gm;
  control::ReadyFn on_ready;  // exactly once
  control::GoneFn on_gone;    // exactly once, also after a start that failed
};

std::unique_ptr<ChipPort> start_process_chip(control::ControlLoop &loop, const std::string &path, ChipPortOptions options);
std::unique_ptr<ChipPort> start_in_process_chip(ChipPortOptions options);

}  // namespace simpler::host
