// The chip's side of the control plane: a libuv loop on the calling thread that takes the host's messages and answers them.
//
// When the host's end of the pipe closes, the host is gone (or has given this chip up) and the process ends at once, whatever
// its other threads do.
#pragma once

#include <cstdint>
#include <functional>

#include "base/shared_memory.h"
#include "base/unique_fd.h"
#include "control/frame.h"

namespace simpler::control {

// What the chip does for each message; called on the loop's thread. Errors are thrown and become the reply.
struct ChipHandler {
  // The chip comes up with its two segments of shared memory.
  std::function<ChipReady(const ChipConfig &config, SharedMemory link, SharedMemory gm)> configure;
  std::function<LoadedCallable(const RegisterRequest &request, UniqueFd images)> load;
  std::function<void(const UnregisterRequest &request)> unload;
  std::function<void()> stop;
};

// Says HELLO and serves until SHUTDOWN was answered (returns the exit code 0) or start-up failed (1). `control` and
// `descriptors` are the chip's ends, see spawn.h.
int serve_host(UniqueFd control, UniqueFd descriptors, const Hello &hello, const ChipHandler &handler);

}  // namespace simpler::control
