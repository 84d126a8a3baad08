// States of a chip process:
//
//   state          entered by                    left by
//   kStarting      spawn                         HELLO of the same build -> kConfigured
//   kConfigured    CONFIGURE sent                READY -> kReady; FAILURE -> kEnding
//   kReady         READY                         shut_down, kill, death, broken protocol -> kEnding
//   kEnding        SHUTDOWN sent or kill         both ends seen (process reaped, pipe and pidfd closed) -> kGone
//   kGone          on_gone called
//
// All of it on the loop thread. The process has ended when its pidfd says so; the end of its pipe alone makes us kill it (a
// chip that closed its pipe is of no use), so the pidfd always follows.
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

#include "control/fd_channel.h"
#include "control/frame.h"
#include "control/spawn.h"

namespace simpler::control {

namespace {

// Unsent bytes to a chip that does not read; beyond this, requests are refused.
constexpr size_t kWriteQueueBytesMax = 4u << 20;
// Tags of the two descriptors that belong to CONFIGURE.
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
  uv_pipe_t pipe{};
  uv_poll_t watch{};
  uv_timer_t grace{};
  int open_handles = 0;  // of the three above
  bool exited = false;
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
    } catch (...) {
      ErrorInfo info = capture_current_exception();
      info.chip = static_cast<int32_t>(options.config.chip);
      exit.error = info;
      tell_ready(info);
      finish();
      return;
    }
    pid.store(process.pid, std::memory_order_relaxed);
    exit.pid = process.pid;
    uv_loop_t *uv = loop.uv();
    uv_pipe_init(uv, &pipe, 0);
    uv_timer_init(uv, &grace);
    pipe.data = grace.data = watch.data = this;
    open_handles = 2;
    uv_pipe_open(&pipe, process.control.release());
    if (process.pidfd.valid()) {
      uv_poll_init(uv, &watch, process.pidfd.get());
      open_handles++;
      uv_poll_start(&watch, UV_READABLE, [](uv_poll_t *handle, int, int) { of(handle)->on_exit(); });
    }
    read_buffer.resize(64 * 1024);
    uv_read_start(
        reinterpret_cast<uv_stream_t *>(&pipe),
        [](uv_handle_t *handle, size_t, uv_buf_t *buffer) {
          State *state = of(handle);
          *buffer = uv_buf_init(state->read_buffer.data(), static_cast<unsigned>(state->read_buffer.size()));
        },
        [](uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buffer) { of(stream)->on_read(bytes, buffer); });
  }

  template <class Handle>
  static State *of(Handle *handle) {
    return static_cast<State *>(handle->data);
  }

  void tell_ready(const ErrorInfo &info, const ChipReady &ready = {}) {
    if (std::exchange(ready_told, true)) return;
    const ReadyFn on_ready = std::move(options.on_ready);
    on_ready(info, ready);
  }

  // ---- incoming

  void on_read(ssize_t bytes, const uv_buf_t *buffer) {
    if (bytes == 0) return;
    if (bytes < 0) {
      // Its end of the pipe is closed: it is dead, about to end as it was asked to, or of no use any more.
      uv_read_stop(reinterpret_cast<uv_stream_t *>(&pipe));
      if (phase != Phase::kGone && !expected)
        give_up(error(SIMPLER_CHIP_LOST, fmt::format("{} closed its control pipe", name())));
      return;
    }
    try {
      decoder.feed(std::as_bytes(std::span(buffer->base, static_cast<size_t>(bytes))));
      while (std::optional<Frame> frame = decoder.next()) handle(*frame);
    } catch (...) {
      ErrorInfo info = capture_current_exception();
      give_up(error(info.code, fmt::format("{} broke the control protocol: {}", name(), info.message)));
    }
  }

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
      case FrameType::kRegisterReply: {
        Pending request = take(frame);
        if (!request.register_reply) break;
        RegisterAnswer answer = decode_register_answer(frame.body);
        if (!answer.error.ok()) answer.error = error(answer.error.code, answer.error.message);
        return request.register_reply(answer.error, answer.loaded);
      }
      case FrameType::kReply: {
        Pending request = take(frame);
        if (!request.reply) break;
        ErrorInfo answer = decode_reply(frame.body);
        if (!answer.ok()) answer = error(answer.code, answer.message);
        return request.reply(answer);
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

  Pending take(const Frame &frame) {
    const auto it = pending.find(frame.request);
    if (it == pending.end())
      throw_error(SIMPLER_PROTOCOL_ERROR, "a {} message for request {}, which is not open", frame_type_name(frame.type),
                  frame.request);
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
    send_descriptor(process.descriptors.get(), kLinkTag, options.link_fd);
    send_descriptor(process.descriptors.get(), kGmTag, options.gm_fd);
    phase = Phase::kConfigured;
    send(encode_configure(options.config));
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
    write.release();  // owned by libuv until the callback
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
    if (request.register_reply) request.register_reply(info, {});
    if (request.reply) request.reply(info);
  }

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
    if (!exited && process.pidfd.valid()) send_signal(process.pidfd.get(), SIGKILL);
    if (!process.pidfd.valid()) {
      exited = true;
      finish();
    }
  }

  void on_exit() {
    siginfo_t info{};
    int result = 0;
    do {
      result = waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(process.pidfd.get()), &info, WEXITED);
    } while (result != 0 && errno == EINTR);
    if (result == 0 && info.si_pid != 0) {
      exit.status_known = true;
      if (info.si_code == CLD_EXITED)
        exit.exit_code = info.si_status;
      else
        exit.signal = info.si_status;
    }
    exited = true;
    drain_pipe();
    finish();
  }

  // What it said before it died may still be in the pipe: a failure's reason, or replies.
  void drain_pipe() {
    uv_os_fd_t fd = -1;
    if (uv_fileno(reinterpret_cast<uv_handle_t *>(&pipe), &fd) != 0) return;
    for (;;) {
      const ssize_t bytes = read(fd, read_buffer.data(), read_buffer.size());
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes <= 0) return;
      const uv_buf_t buffer = uv_buf_init(read_buffer.data(), static_cast<unsigned>(bytes));
      on_read(bytes, &buffer);
    }
  }

  void finish() {
    if (phase == Phase::kGone) return;
    // A death that nobody asked for: what the process told by its status is the cause, unless we killed it for another one.
    exit.expected = expected;
    if (!expected && exit.error.ok()) {
      const std::string how = !exit.status_known ? "ended; how is not known, as its status was taken by somebody else"
                              : exit.signal != 0
                                  ? fmt::format("was ended by signal {} ({})", exit.signal, strsignal(exit.signal))
                                  : fmt::format("exited with code {}", exit.exit_code);
      const bool killed_by_us = !cause.ok() && exit.signal == SIGKILL && cause.code != SIMPLER_CHIP_LOST;
      if (killed_by_us)
        exit.error = cause;
      else if (!cause.ok() && cause.code != SIMPLER_CHIP_LOST)
        exit.error = cause;
      else
        exit.error = error(SIMPLER_CHIP_LOST, fmt::format("{} {}", name(), how));
      exit.error.signal = exit.signal;
    }
    if (!exit.error.ok()) cause = exit.error;
    phase = Phase::kGone;
    tell_ready(exit.error.ok() ? error(SIMPLER_CANCELLED, name() + " was shut down while starting") : exit.error);
    std::unordered_map<uint32_t, Pending> open;
    open.swap(pending);
    for (const auto &[id, request] : open) answer(request, gone_error());
    if (open_handles == 0) {
      tell_gone();
      return;
    }
    auto on_closed = [](uv_handle_t *handle) {
      State *state = of(handle);
      if (--state->open_handles == 0) state->tell_gone();
    };
    const bool watched = open_handles == 3;
    uv_close(reinterpret_cast<uv_handle_t *>(&pipe), on_closed);
    uv_close(reinterpret_cast<uv_handle_t *>(&grace), on_closed);
    if (watched) uv_close(reinterpret_cast<uv_handle_t *>(&watch), on_closed);
  }

  void tell_gone() {
    process = SpawnedChip();
    const std::shared_ptr<State> keep = std::move(self);
    const GoneFn on_gone = std::move(options.on_gone);
    on_gone(exit);
  }

  void shut_down(uint64_t grace_ns) {
    if (phase == Phase::kGone || expected) return;
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
        &grace, [](uv_timer_t *timer) { of(timer)->give_up({}); }, grace_ns / 1'000'000 + 1, 0);
  }
};

ChipProcess::ChipProcess(std::shared_ptr<State> state) : state_(std::move(state)) {}

std::shared_ptr<ChipProcess> ChipProcess::spawn(ControlLoop &loop, Options options) {
  auto state = std::make_shared<State>(loop, std::move(options));
  std::shared_ptr<ChipProcess> process(new ChipProcess(state));
  loop.post([state] { state->start(); });
  return process;
}

int64_t ChipProcess::pid() const { return state_->pid.load(std::memory_order_relaxed); }

void ChipProcess::register_callable(uint32_t cid, uint32_t generation, std::shared_ptr<const CallableManifest> manifest,
                                    std::shared_ptr<const UniqueFd> images, RegisterReplyFn reply) {
  auto run = [state = state_, cid, generation, manifest = std::move(manifest), images = std::move(images), reply] {
    state->request({reply, nullptr}, [&](uint32_t id) {
      Bytes bytes = encode_register(id, cid, generation, *manifest);
      send_descriptor(state->process.descriptors.get(), id, images->get());
      return bytes;
    });
  };
  if (!state_->loop.post(std::move(run))) reply(state_->gone_error(), {});
}

void ChipProcess::unregister_callable(uint32_t cid, uint32_t generation, ReplyFn reply) {
  auto run = [state = state_, cid, generation, reply] {
    state->request({nullptr, reply}, [&](uint32_t id) { return encode_unregister(id, cid, generation); });
  };
  if (!state_->loop.post(std::move(run))) reply(state_->gone_error());
}

void ChipProcess::ping(ReplyFn reply) {
  auto run = [state = state_, reply] { state->request({nullptr, reply}, [](uint32_t id) { return encode_ping(id); }); };
  if (!state_->loop.post(std::move(run))) reply(state_->gone_error());
}

void ChipProcess::shut_down(uint64_t grace_ns) {
  state_->loop.post([state = state_, grace_ns] { state->shut_down(grace_ns); });
}

void ChipProcess::kill() {
  state_->loop.post(
      [state = state_] { state->give_up(state->error(SIMPLER_CHIP_LOST, state->name() + " was killed by the library")); });
}

}  // namespace simpler::control
