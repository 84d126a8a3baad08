// The libuv loop of one worker and the thread that runs it. Never the default loop; no signal handling; SIGCHLD untouched.
//
// Other threads only post functions (mutex-protected queue and uv_async_send). The thread runs with all signals blocked but
// the synchronous ones, so the host's handlers never run on it and a write to a dead chip gives EPIPE.
#pragma once

#include <functional>
#include <memory>

struct uv_loop_s;

namespace simpler::control {

class ControlLoop {
 public:
  ControlLoop();   // starts the thread; throws SYSTEM_ERROR
  ~ControlLoop();  // every handle made on the loop must be closed or closing; runs the loop dry, closes it, joins
  ControlLoop(const ControlLoop &) = delete;
  ControlLoop &operator=(const ControlLoop &) = delete;

  // Runs `function` on the loop thread, in order of posting. Exceptions that leave it end the call only (they are a bug and
  // are reported on the log). False after the loop has been told to end: the function is then destroyed, not called.
  bool post(std::function<void()> function);
  bool on_loop_thread() const;
  uv_loop_s *uv() const;  // loop thread only

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace simpler::control
