#include "control/chip_channel.h"

#include <fcntl.h>
#include <unistd.h>
#include <uv.h>

#include "control/fd_channel.h"

namespace simpler::control {

namespace {

// The descriptor was sent before the frame that announced it: it is there, unless the host is broken.
constexpr int kDescriptorTimeoutMs = 5'000;
// Exit code after the host is gone, for whoever looks at it.
constexpr int kHostGoneExitCode = 3;

class ChipChannel {
 public:
  ChipChannel(UniqueFd control, UniqueFd descriptors, const ChipHandler &handler)
      : descriptors_(std::move(descriptors)), handler_(handler) {
    check(uv_loop_init(&loop_), "creating an event loop");
    check(uv_pipe_init(&loop_, &pipe_, 0), "creating the control pipe");
    pipe_.data = this;
    check(uv_pipe_open(&pipe_, control.release()), "opening the control pipe");
  }

  int serve(const Hello &hello) {
    send(encode_hello(hello));
    check(uv_read_start(
              reinterpret_cast<uv_stream_t *>(&pipe_),
              [](uv_handle_t *handle, size_t, uv_buf_t *buffer) {
                auto *channel = static_cast<ChipChannel *>(handle->data);
                *buffer = uv_buf_init(channel->buffer_, sizeof channel->buffer_);
              },
              [](uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buffer) {
                static_cast<ChipChannel *>(stream->data)->on_read(bytes, buffer);
              }),
          "reading the control pipe");
    uv_run(&loop_, UV_RUN_DEFAULT);
    uv_loop_close(&loop_);
    return exit_code_;
  }

 private:
  struct Write {
    uv_write_t request;
    Bytes bytes;
  };

  static void check(int result, const char *what) {
    if (result < 0) throw_system_error(-result, what);
  }

  void on_read(ssize_t bytes, const uv_buf_t *buffer) {
    // Kernels may run in other threads: no destructor may run under them.
    if (bytes < 0) _exit(kHostGoneExitCode);
    try {
      decoder_.feed(std::as_bytes(std::span(buffer->base, static_cast<size_t>(bytes))));
      while (!closing_) {
        const std::optional<Frame> frame = decoder_.next();
        if (!frame) return;
        handle(*frame);
      }
    } catch (...) {
      // The host is not understood any more: this process is of no use. It learns of it by the end of the pipe.
      const ErrorInfo info = capture_current_exception();
      dprintf(STDERR_FILENO, "simpler-chip: %s: %s\n", status_name(info.code), info.message.c_str());
      _exit(1);
    }
  }

  void handle(const Frame &frame) {
    switch (frame.type) {
      case FrameType::kMap:
        return send(encode_reply(frame.request, map(frame)));
      case FrameType::kConfigure:
        return configure(decode_configure(frame.body));
      case FrameType::kRegister:
        return send(encode_register_answer(frame.request, load(frame)));
      case FrameType::kUnregister:
        return send(encode_reply(frame.request, attempt([&] { handler_.unload(decode_unregister(frame.body)); })));
      case FrameType::kPing:
        return send(encode_reply(frame.request, {}));
      case FrameType::kShutdown:
        handler_.stop();
        send(encode_reply(frame.request, {}));
        return close(0);
      default:
        throw_error(SIMPLER_PROTOCOL_ERROR, "an unexpected {} message (type {}) from the host", frame_type_name(frame.type),
                    static_cast<unsigned>(frame.type));
    }
  }

  ErrorInfo map(const Frame &frame) {
    UniqueFd fd = receive_descriptor(descriptors_.get(), frame.request, kDescriptorTimeoutMs);
    return attempt([&] {
      const MapRequest request = decode_map(frame.body);
      const bool is_link = request.segment == Segment::kLink;
      (is_link ? link_ : gm_) = SharedMemory::map(is_link ? "link" : "GM", std::move(fd), request.bytes);
    });
  }

  void configure(const ChipConfig &config) {
    ChipReady ready;
    const ErrorInfo error = attempt([&] {
      if (link_.data() == nullptr || gm_.data() == nullptr)
        throw_error(SIMPLER_PROTOCOL_ERROR, "a CONFIGURE message before link and GM were mapped");
      ready = handler_.configure(config, std::move(link_), std::move(gm_));
    });
    if (error.ok()) {
      send(encode_ready(ready));
    } else {
      send(encode_failure(error));
      close(1);
    }
  }

  RegisterAnswer load(const Frame &frame) {
    RegisterAnswer answer;
    // Taken in any case: the next request's descriptor is behind it.
    UniqueFd images = receive_descriptor(descriptors_.get(), frame.request, kDescriptorTimeoutMs);
    answer.error = attempt([&] { answer.loaded = handler_.load(decode_register(frame.body), std::move(images)); });
    return answer;
  }

  template <class Function>
  static ErrorInfo attempt(Function function) {
    try {
      function();
      return {};
    } catch (...) {
      return capture_current_exception();
    }
  }

  void send(Bytes bytes) {
    auto write = std::make_unique<Write>();
    write->bytes = std::move(bytes);
    write->request.data = write.get();
    const uv_buf_t buffer =
        uv_buf_init(reinterpret_cast<char *>(write->bytes.data()), static_cast<unsigned>(write->bytes.size()));
    check(uv_write(&write->request, reinterpret_cast<uv_stream_t *>(&pipe_), &buffer, 1,
                   [](uv_write_t *request, int) { delete static_cast<Write *>(request->data); }),
          "writing to the host");
    (void)write.release();  // owned by libuv until the callback
  }

  // Lets what was sent leave, then ends the loop.
  void close(int exit_code) {
    exit_code_ = exit_code;
    closing_ = true;
    uv_read_stop(reinterpret_cast<uv_stream_t *>(&pipe_));
    shutdown_.data = this;
    const int result = uv_shutdown(&shutdown_, reinterpret_cast<uv_stream_t *>(&pipe_), [](uv_shutdown_t *request, int) {
      uv_close(reinterpret_cast<uv_handle_t *>(&static_cast<ChipChannel *>(request->data)->pipe_), nullptr);
    });
    if (result != 0) uv_close(reinterpret_cast<uv_handle_t *>(&pipe_), nullptr);
  }

  UniqueFd descriptors_;
  const ChipHandler &handler_;
  uv_loop_t loop_{};
  uv_pipe_t pipe_{};
  uv_shutdown_t shutdown_{};
  SharedMemory link_;  // from MAP until CONFIGURE
  SharedMemory gm_;
  FrameDecoder decoder_;
  char buffer_[16 * 1024];
  int exit_code_ = 1;
  bool closing_ = false;
};

}  // namespace

int serve_host(UniqueFd control, UniqueFd descriptors, const Hello &hello, const ChipHandler &handler) {
  ChipChannel channel(std::move(control), std::move(descriptors), handler);
  return channel.serve(hello);
}

}  // namespace simpler::control
