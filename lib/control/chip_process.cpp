// States of a chip process:
//
//   state          entered by                    left by
//   kStarting      spawn                         HELLO of the same build -> kConfigured
//   kConfigured    CONFIGURE sent                READY -> kReady; FAILURE -> kEnding
//   kReady         READY                         shut_down, kill, end of its pipe, broken protocol -> kEnding
//   kEnding        one of these, in any state    the process has ended and was reaped -> kGone
//   kGone          its end was seen              on_gone called when all libuv handles are closed
//
// All of it on the loop thread. The process has ended when its pidfd says so. The end of its pipe alone makes us kill it (a
// chip that closed its pipe is of no use) unless the pidfd follows soon, as it does when the process is dying anyway.
#include "control/chip_process.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <uv.h>
#include <vector>

#include "control/fd_channel.h"
#include "control/frame.h"
#include "control/spawn.h"

namespace simpler::control {

namespace {

// Unsent bytes to a chip that does not read; beyond this, requests are refused.
constexpr size_t kWriteQueueBytesMax = 4u << 20;
// Last words of a dead chip that are read. More than fits into its pipe; a process that the chip left behind may hold the other
// end and write for ever.
constexpr size_t kLastBytesMax = 4u << 20;
// From the end of a chip's pipe to its end; after that, it has closed the pipe and lives.
constexpr uint64_t kDyingMs = 100;
// A debugger may hold the status of a dead process. How long we wait for it.
constexpr uint64_t kReapRetryMs = 10;
constexpr int kReapAttemptsMax = 100;

int send_signal(int pidfd, int signal) {
  return static_cast<int>(syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0));
}

struct Write {
  uv_write_t request;
  Bytes bytes;
};

}  // namespace

struct ChipProcess::State : std::enable_shared_from_this<ChipProcess::State> {
  enum class Phase {
    kStarting,
    kConfigured,
    kReady,
    kEnding,
    kGone
  };
  struct Pending {
    RegisterReplyFn register_reply;
    ReplyFn reply;
  };

  ControlLoop &loop;
  Options options;
  // pid for other threads; written once on the loop thread.
  std::atomic<int64_t> pid{0};

  // Loop thread only, from here on.
  Phase phase = Phase::kStarting;
  SpawnedChip process;
  uv_timer_t timer{};  // until it is killed; after its end, until the next attempt to reap it
  uv_pipe_t pipe{};
  uv_poll_t watch{};
  std::vector<uv_handle_t *> handles;  // those of the three above that are open
  bool watched = false;                // on_exit will be called
  int reap_attempts = 0;
  bool broken = false;    // what it says is of no further interest
  bool expected = false;  // we asked it to end
  bool ready_told = false;
  ChipExit exit;
  ErrorInfo cause;  // why we gave it up, if we did
  FrameDecoder decoder;
  std::unordered_map<uint32_t, Pending> pending;
  uint32_t next_request = 1;
  std::vector<char> read_buffer;
  std::shared_ptr<State> self;  // keeps this alive while libuv has handles of it

  State(ControlLoop &loop_of_worker, Options given) : loop(loop_of_worker), options(std::move(given)) {}

  std::string name() const {
    return fmt::format("chip {} (pid {})", options.config.chip, pid.load(std::memory_order_relaxed));
  }

  ErrorInfo error(simpler_status code, std::string message) const {
    ErrorInfo info;
    info.code = code;
    info.chip = static_cast<int32_t>(options.config.chip);
    info.pid = pid.load(std::memory_order_relaxed);
    info.message = std::move(message);
    return info;
  }

  // ---- start

  void start() {
    self = shared_from_this();
    try {
      process = spawn_chip(options.path);
      pid.store(process.pid, std::memory_order_relaxed);
      exit.pid = process.pid;
      read_buffer.resize(64 * 1024);
      watch_process();
    } catch (...) {
      const ErrorInfo info = capture_current_exception();
      give_up(error(info.code, info.message));
    }
  }

  void watch_process() {
    const StandardFdsTaken standard_fds;  // the first pipe of a loop makes libuv open a descriptor of its own
    uv_loop_t *uv = loop.uv();
    check(uv_timer_init(uv, &timer), "making a timer");
    opened(&timer);
    if (process.pidfd.valid()) {
      check(uv_poll_init(uv, &watch, process.pidfd.get()), "watching the process");
      opened(&watch);
      check(uv_poll_start(&watch, UV_READABLE, [](uv_poll_t *handle, int, int) { of(handle)->on_exit(); }),
            "watching the process");
      watched = true;
    }
    check(uv_pipe_init(uv, &pipe, 0), "making the control pipe");
    opened(&pipe);
    check(uv_pipe_open(&pipe, process.control.get()), "opening the control pipe");
    process.control.release();
    check(uv_read_start(
              reinterpret_cast<uv_stream_t *>(&pipe),
              [](uv_handle_t *handle, size_t, uv_buf_t *buffer) {
                State *state = of(handle);
                *buffer = uv_buf_init(state->read_buffer.data(), static_cast<unsigned>(state->read_buffer.size()));
              },
              [](uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buffer) { of(stream)->on_read(bytes, buffer); }),
          "reading the control pipe");
  }

  void check(int result, const char *what) const {
    if (result < 0) throw_system_error(-result, fmt::format("{} of {}", what, name()));
  }

  template <class Handle>
  void opened(Handle *handle) {
    handle->data = this;
    handles.push_back(reinterpret_cast<uv_handle_t *>(handle));
  }

  template <class Handle>
  static State *of(Handle *handle) {
    return static_cast<State *>(handle->data);
  }

  // Whoever gave us a callback handles its own errors; none may pass through libuv's frames.
  template <class Callback, class... Args>
  static void call(const Callback &callback, const Args &...args) {
    try {
      callback(args...);
    } catch (...) {
      capture_current_exception();
    }
  }

  void tell_ready(const ErrorInfo &info, const ChipReady &ready = {}) {
    if (std::exchange(ready_told, true)) return;
    const ReadyFn on_ready = std::move(options.on_ready);
    call(on_ready, info, ready);
  }

  // ---- incoming

  void on_read(ssize_t bytes, const uv_buf_t *buffer) {
    if (bytes == 0 || broken) return;
    if (bytes < 0) {
      uv_read_stop(reinterpret_cast<uv_stream_t *>(&pipe));
      if (phase == Phase::kEnding || phase == Phase::kGone) return;
      // It is dying, and its pidfd will tell how; or it has closed the pipe, and is of no use any more.
      phase = Phase::kEnding;
      if (process.pidfd.valid())
        uv_timer_start(
            &timer, [](uv_timer_t *handle) { of(handle)->on_pipe_closed(); }, kDyingMs, 0);
      else
        on_pipe_closed();
      return;
    }
    try {
      decoder.feed(std::as_bytes(std::span(buffer->base, static_cast<size_t>(bytes))));
      while (std::optional<Frame> frame = decoder.next()) handle(*frame);
    } catch (...) {
      const ErrorInfo info = capture_current_exception();
      broken = true;
      uv_read_stop(reinterpret_cast<uv_stream_t *>(&pipe));
      give_up(error(info.code, fmt::format("{} broke the control protocol: {}", name(), info.message)));
    }
  }

  void on_pipe_closed() { give_up(error(SIMPLER_CHIP_LOST, name() + " closed its control pipe")); }

  void handle(const Frame &frame) {
    if (phase == Phase::kEnding || phase == Phase::kGone) {
      // Late replies still answer their requests; everything else is of no interest now.
      if (frame.type != FrameType::kReply && frame.type != FrameType::kRegisterReply) return;
    }
    switch (frame.type) {
      case FrameType::kHello:
        expect(frame, Phase::kStarting);
        return on_hello(decode_hello(frame.body));
      case FrameType::kReady:
        expect(frame, Phase::kConfigured);
        phase = Phase::kReady;
        return tell_ready({}, decode_ready(frame.body));
      case FrameType::kFailure: {
        expect(frame, Phase::kConfigured);
        const ErrorInfo failure = decode_failure(frame.body);
        return give_up(error(failure.code, fmt::format("{} did not start: {}", name(), failure.message)));
      }
      // Decoded before the request is taken: a request is answered also when its reply is no good.
      case FrameType::kRegisterReply: {
        RegisterAnswer answer = decode_register_answer(frame.body);
        const Pending request = take(frame, [](const Pending &open) { return open.register_reply != nullptr; });
        if (!answer.error.ok()) answer.error = error(answer.error.code, answer.error.message);
        return call(request.register_reply, answer.error, answer.loaded);
      }
      case FrameType::kReply: {
        ErrorInfo answer = decode_reply(frame.body);
        const Pending request = take(frame, [](const Pending &open) { return open.reply != nullptr; });
        if (!answer.ok()) answer = error(answer.code, answer.message);
        return call(request.reply, answer);
      }
      default:
        break;
    }
    throw_error(SIMPLER_PROTOCOL_ERROR, "an unexpected {} message (type {}, request {})", frame_type_name(frame.type),
                static_cast<unsigned>(frame.type), frame.request);
  }

  void expect(const Frame &frame, Phase wanted) const {
    if (phase != wanted) throw_error(SIMPLER_PROTOCOL_ERROR, "a {} message out of order", frame_type_name(frame.type));
  }

  template <class Fits>
  Pending take(const Frame &frame, Fits fits) {
    const auto it = pending.find(frame.request);
    if (it == pending.end() || !fits(it->second))
      throw_error(SIMPLER_PROTOCOL_ERROR, "a {} message for request {}; no such request is open",
                  frame_type_name(frame.type), frame.request);
    Pending request = std::move(it->second);
    pending.erase(it);
    return request;
  }

  void on_hello(const Hello &hello) {
    if (hello.build_id != options.build_id) {
      give_up(
          error(SIMPLER_LOAD_VERSION,
                fmt::format("{} is not of the same build as the library: the chip's build is {}, the library's {}; install "
                            "both together, or set the option `chip_path`",
                            options.path, hello.build_id, options.build_id)));
      return;
    }
    map_segment({Segment::kLink, options.config.link_bytes}, options.link_fd);
    map_segment({Segment::kGm, options.config.gm_bytes}, options.gm_fd);
    phase = Phase::kConfigured;
    send(encode_configure(options.config));
  }

  void map_segment(const MapRequest &map, int fd) {
    const uint32_t id = next_request_id();
    send_descriptor(process.descriptors.get(), id, fd);
    pending.emplace(id, Pending{nullptr, [this](const ErrorInfo &answer) {
                                  if (answer.ok() || phase == Phase::kGone) return;
                                  give_up(error(answer.code, fmt::format("{} did not start: {}", name(), answer.message)));
                                }});
    send(encode_map(id, map));
  }

  // ---- outgoing

  void send(Bytes bytes) {
    auto write = std::make_unique<Write>();
    write->bytes = std::move(bytes);
    write->request.data = write.get();
    const uv_buf_t buffer =
        uv_buf_init(reinterpret_cast<char *>(write->bytes.data()), static_cast<unsigned>(write->bytes.size()));
    const int result =
        uv_write(&write->request, reinterpret_cast<uv_stream_t *>(&pipe), &buffer, 1, [](uv_write_t *request, int) {
          // A failed write means that the pipe has ended; reading tells.
          delete static_cast<Write *>(request->data);
        });
    if (result != 0) throw_system_error(-result, fmt::format("writing to {}", name()));
    (void)write.release();  // owned by libuv until the callback
  }

  uint32_t next_request_id() {
    while (next_request == 0 || pending.count(next_request) != 0) next_request++;
    return next_request++;
  }

  // Sends a request built by `make(request id)`; a failure is the reply.
  template <class Make>
  void request(Pending on_reply, Make make) {
    uint32_t id = 0;
    try {
      if (phase != Phase::kReady) {
        answer(on_reply, phase == Phase::kEnding || phase == Phase::kGone ? gone_error()
                                                                          : error(SIMPLER_BUSY, name() + " is starting"));
        return;
      }
      if (uv_stream_get_write_queue_size(reinterpret_cast<uv_stream_t *>(&pipe)) > kWriteQueueBytesMax)
        throw_error(SIMPLER_BUSY, "{} does not read its control messages; {} bytes are waiting", name(),
                    uv_stream_get_write_queue_size(reinterpret_cast<uv_stream_t *>(&pipe)));
      id = next_request_id();
      Bytes bytes = make(id);
      pending.emplace(id, std::move(on_reply));
      send(std::move(bytes));
    } catch (...) {
      const ErrorInfo info = capture_current_exception();
      const auto it = pending.find(id);
      if (it != pending.end()) {
        on_reply = std::move(it->second);
        pending.erase(it);
      }
      answer(on_reply, error(info.code, info.message));
    }
  }

  static void answer(const Pending &request, const ErrorInfo &info) {
    if (request.register_reply) call(request.register_reply, info, LoadedCallable());
    if (request.reply) call(request.reply, info);
  }

  // For requests that come after the loop was told to end; any thread.
  ErrorInfo closed_error() const { return error(SIMPLER_CANCELLED, name() + ": its control loop has ended"); }

  ErrorInfo gone_error() const {
    if (!cause.ok()) return cause;
    return error(expected ? SIMPLER_CANCELLED : SIMPLER_CHIP_LOST, name() + " has ended");
  }

  // ---- end

  // Something is wrong with it: no further use, kill it. The first cause counts.
  void give_up(ErrorInfo info) {
    if (phase == Phase::kGone) return;
    if (cause.ok() && !expected) cause = std::move(info);
    phase = Phase::kEnding;
    if (process.pidfd.valid()) send_signal(process.pidfd.get(), SIGKILL);  // harmless when it has been reaped
    if (watched) return;
    // Nobody will tell us: it never ran, cannot be watched, or was reaped by somebody else at once.
    if (process.pidfd.valid()) reap(0);
    finish();
  }

  // Takes the process's status. False: it is not to be had, now.
  bool reap(int flags) {
    siginfo_t info{};
    int result = 0;
    do {
      result = waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(process.pidfd.get()), &info, WEXITED | flags);
    } while (result != 0 && errno == EINTR);
    if (result != 0) return true;  // somebody else has it
    if (info.si_pid == 0) return false;
    exit.status_known = true;
    (info.si_code == CLD_EXITED ? exit.exit_code : exit.signal) = info.si_status;
    return true;
  }

  void on_exit() {
    uv_poll_stop(&watch);  // it stays readable
    read_last_words();
    phase = Phase::kEnding;
    try_reap();
  }

  void try_reap() {
    if (!reap(WNOHANG) && ++reap_attempts < kReapAttemptsMax)
      uv_timer_start(
          &timer, [](uv_timer_t *handle) { of(handle)->try_reap(); }, kReapRetryMs, 0);
    else
      finish();
  }

  // What it said before it died may still be in the pipe: a failure's reason, or replies.
  void read_last_words() {
    uv_os_fd_t fd = -1;
    if (uv_fileno(reinterpret_cast<uv_handle_t *>(&pipe), &fd) != 0) return;
    for (size_t total = 0; total < kLastBytesMax && !broken;) {
      const ssize_t bytes = read(fd, read_buffer.data(), read_buffer.size());
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes <= 0) return;
      total += static_cast<size_t>(bytes);
      const uv_buf_t buffer = uv_buf_init(read_buffer.data(), static_cast<unsigned>(bytes));
      on_read(bytes, &buffer);
    }
  }

  std::string how_it_ended() const {
    if (!exit.status_known)
      return name() + " ended; how is not known, as somebody else in this program took its status, or a debugger holds it";
    if (exit.signal != 0) return fmt::format("{} was ended by signal {} ({})", name(), exit.signal, strsignal(exit.signal));
    return fmt::format("{} exited with code {}", name(), exit.exit_code);
  }

  void finish() {
    if (phase == Phase::kGone) return;
    exit.expected = expected;
    if (!expected) {
      // Why we gave it up, unless it died by itself meanwhile.
      const bool died_by_itself = cause.ok() || (cause.code == SIMPLER_CHIP_LOST && exit.signal != SIGKILL);
      exit.error = died_by_itself ? error(SIMPLER_CHIP_LOST, how_it_ended()) : cause;
      exit.error.signal = exit.signal;
      cause = exit.error;
    }
    phase = Phase::kGone;
    tell_ready(exit.error.ok() ? error(SIMPLER_CANCELLED, name() + " was shut down while starting") : exit.error);
    std::unordered_map<uint32_t, Pending> open;
    open.swap(pending);
    for (const auto &[id, request] : open) answer(request, gone_error());
    if (handles.empty()) return tell_gone();
    for (uv_handle_t *handle : handles) {
      uv_close(handle, [](uv_handle_t *closed) {
        State *state = of(closed);
        std::erase(state->handles, closed);
        if (state->handles.empty()) state->tell_gone();
      });
    }
  }

  void tell_gone() {
    process = SpawnedChip();
    const std::shared_ptr<State> keep = std::move(self);
    const GoneFn on_gone = std::move(options.on_gone);
    call(on_gone, exit);
  }

  void shut_down(uint64_t grace_ns) {
    if (phase == Phase::kGone || phase == Phase::kEnding) return;  // it is on its way already
    expected = true;
    const bool reachable = phase == Phase::kReady;
    phase = Phase::kEnding;
    if (!reachable) {
      give_up({});
      return;
    }
    try {
      const uint32_t id = next_request_id();
      pending.emplace(id, Pending{nullptr, [](const ErrorInfo &) {}});  // the end of the process is what counts
      send(encode_shutdown(id));
    } catch (...) {
      give_up({});
      return;
    }
    uv_timer_start(
        &timer, [](uv_timer_t *handle) { of(handle)->give_up({}); }, grace_ns / 1'000'000 + 1, 0);
  }

  // The loop was told to end before the process was started.
  void refuse_start() {
    phase = Phase::kGone;
    exit.expected = true;
    tell_ready(closed_error());
    tell_gone();
  }
};

ChipProcess::ChipProcess(std::shared_ptr<State> state) : state_(std::move(state)) {}

std::shared_ptr<ChipProcess> ChipProcess::spawn(ControlLoop &loop, Options options) {
  auto state = std::make_shared<State>(loop, std::move(options));
  std::shared_ptr<ChipProcess> process(new ChipProcess(state));
  if (!loop.post([state] { state->start(); })) state->refuse_start();
  return process;
}

int64_t ChipProcess::pid() const { return state_->pid.load(std::memory_order_relaxed); }

void ChipProcess::register_callable(uint32_t cid, uint32_t generation, std::shared_ptr<const CallableManifest> manifest,
                                    std::shared_ptr<const UniqueFd> images, const RegisterReplyFn &reply) {
  auto run = [state = state_, cid, generation, manifest = std::move(manifest), images = std::move(images), reply] {
    state->request({reply, nullptr}, [&](uint32_t id) {
      Bytes bytes = encode_register(id, cid, generation, *manifest);
      send_descriptor(state->process.descriptors.get(), id, images->get());
      return bytes;
    });
  };
  if (!state_->loop.post(std::move(run))) reply(state_->closed_error(), {});
}

void ChipProcess::unregister_callable(uint32_t cid, uint32_t generation, const ReplyFn &reply) {
  auto run = [state = state_, cid, generation, reply] {
    state->request({nullptr, reply}, [&](uint32_t id) { return encode_unregister(id, cid, generation); });
  };
  if (!state_->loop.post(std::move(run))) reply(state_->closed_error());
}

void ChipProcess::ping(const ReplyFn &reply) {
  auto run = [state = state_, reply] { state->request({nullptr, reply}, [](uint32_t id) { return encode_ping(id); }); };
  if (!state_->loop.post(std::move(run))) reply(state_->closed_error());
}

void ChipProcess::shut_down(uint64_t grace_ns) {
  state_->loop.post([state = state_, grace_ns] { state->shut_down(grace_ns); });
}

void ChipProcess::kill() {
  state_->loop.post(
      [state = state_] { state->give_up(state->error(SIMPLER_CHIP_LOST, state->name() + " was killed by the library")); });
}

}  // namespace simpler::control
