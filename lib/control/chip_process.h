// The host's side of one chip process: spawn, control pipe, liveness, requests, shutdown.
//
// Everything here runs on the worker's control loop thread (control_loop.h); the methods may be called from any thread and
// only post to that loop. Callbacks run on the loop thread with no lock held; they must not block.
//
// Life: spawned -> hello -> configured -> ready -> (shutting down) -> gone. `on_gone` is called exactly once, after the process
// has been reaped and every pending request has been answered with CHIP_LOST (or CANCELLED during shutdown).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "control/control_loop.h"
#include "control/messages.h"

namespace simpler::control {

struct ChipExit {
  int64_t pid = 0;
  bool status_known = false;  // false: somebody else in the host reaped it (waitpid(-1), ignored SIGCHLD)
  int32_t exit_code = 0;      // when it exited by itself
  int32_t signal = 0;         // when a signal ended it
  bool expected = false;      // it was asked to shut down
  ErrorInfo error;            // CHIP_LOST or PROTOCOL_ERROR ... with chip, pid and cause; OK when expected
};

using ReadyFn = std::function<void(const ErrorInfo &error, const ChipReady &ready)>;
using GoneFn = std::function<void(const ChipExit &exit)>;
using RegisterReplyFn = std::function<void(const ErrorInfo &error, const LoadedCallable &loaded)>;
using ReplyFn = std::function<void(const ErrorInfo &error)>;

class ChipProcess {
 public:
  struct Options {
    std::string path;      // of simpler-chip
    ChipConfig config;     // sent with Configure
    std::string build_id;  // that Hello must carry
    int gm_fd = -1;        // borrowed until ready or gone
    int link_fd = -1;      // borrowed until ready or gone
    ReadyFn on_ready;      // exactly once: up, or why not (then on_gone follows)
    GoneFn on_gone;        // exactly once
  };

  // Starts the process on the loop thread. Never throws for the process's failures: these go to on_ready.
  static std::shared_ptr<ChipProcess> spawn(ControlLoop &loop, Options options);

  // Process id; 0 before the process exists.
  int64_t pid() const;

  // `images` is shared: the same descriptor goes to every chip. The reply comes exactly once.
  void register_callable(uint32_t cid, uint32_t generation, std::shared_ptr<const CallableManifest> manifest,
                         std::shared_ptr<const UniqueFd> images, const RegisterReplyFn &reply);
  void unregister_callable(uint32_t cid, uint32_t generation, const ReplyFn &reply);
  void ping(const ReplyFn &reply);
  // Asks the process to end; kills it when it has not gone after grace_ns. on_gone tells when it is over.
  void shut_down(uint64_t grace_ns);
  // Kills it at once (SIGKILL through the pidfd).
  void kill();

 private:
  struct State;
  explicit ChipProcess(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace simpler::control
