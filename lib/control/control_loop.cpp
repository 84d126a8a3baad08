#include "control/control_loop.h"

#include <csignal>
#include <deque>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <utility>
#include <uv.h>

#include "base/error.h"
#include "base/unique_fd.h"

namespace simpler::control {

struct ControlLoop::State {
  uv_loop_t loop{};
  uv_async_t wake{};
  std::thread thread;
  // Guards posted, ending; nothing else is locked under it.
  std::mutex mutex;
  std::deque<std::function<void()>> posted;
  bool ending = false;

  void run_posted() {
    std::deque<std::function<void()>> functions;
    bool end = false;
    {
      const std::lock_guard lock(mutex);
      functions.swap(posted);
      end = ending;
    }
    for (std::function<void()> &function : functions) {
      // What is posted handles its own errors; this catch keeps a mistake from passing through libuv's C frames.
      try {
        function();
      } catch (...) {
        capture_current_exception();
      }
      function = nullptr;
    }
    if (end && uv_is_closing(reinterpret_cast<uv_handle_t *>(&wake)) == 0)
      uv_close(reinterpret_cast<uv_handle_t *>(&wake), nullptr);
  }

  void thread_main() {
    pthread_setname_np(pthread_self(), "simpler-ctl");
    uv_run(&loop, UV_RUN_DEFAULT);  // returns when the last handle has been closed
  }
};

namespace {

// Signals are for the host's own threads; the synchronous ones stay as they are.
void block_asynchronous_signals(sigset_t *before) {
  sigset_t signals;
  sigfillset(&signals);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) sigdelset(&signals, signal);
  pthread_sigmask(SIG_SETMASK, &signals, before);
}

}  // namespace

ControlLoop::ControlLoop() : state_(std::make_shared<State>()) {
  State *state = state_.get();
  const StandardFdsTaken standard_fds;
  const int result = uv_loop_init(&state->loop);
  if (result != 0) throw_system_error(-result, "creating an event loop");
  state->loop.data = state;
  const int async_result = uv_async_init(&state->loop, &state->wake,
                                         [](uv_async_t *wake) { static_cast<State *>(wake->loop->data)->run_posted(); });
  if (async_result != 0) {
    uv_loop_close(&state->loop);
    throw_system_error(-async_result, "creating the wake-up of an event loop");
  }
  // A thread inherits its creator's mask.
  sigset_t before;
  block_asynchronous_signals(&before);
  try {
    state->thread = std::thread([state] { state->thread_main(); });
  } catch (const std::system_error &error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    uv_close(reinterpret_cast<uv_handle_t *>(&state->wake), nullptr);
    uv_run(&state->loop, UV_RUN_DEFAULT);
    uv_loop_close(&state->loop);
    throw_system_error(error.code().value(), "starting the control thread");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ControlLoop::~ControlLoop() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
    uv_async_send(&state_->wake);  // under the lock, as in post
  }
  state_->thread.join();
  uv_loop_close(&state_->loop);
  // Functions that were posted while the loop ended are destroyed here, uncalled.
}

bool ControlLoop::post(std::function<void()> function) {
  const std::lock_guard lock(state_->mutex);
  if (state_->ending) return false;
  state_->posted.push_back(std::move(function));
  // Under the lock: the wake-up handle cannot be closed meanwhile.
  uv_async_send(&state_->wake);
  return true;
}

bool ControlLoop::on_loop_thread() const { return std::this_thread::get_id() == state_->thread.get_id(); }

uv_loop_s *ControlLoop::uv() const { return &state_->loop; }

}  // namespace simpler::control
