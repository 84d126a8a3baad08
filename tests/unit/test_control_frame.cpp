// lib/control/frame and fd_channel: control messages, honest and hostile.
#include <cstring>
#include <fcntl.h>
#include <random>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "base/error.h"
#include "control/fd_channel.h"
#include "control/frame.h"
#include "support.h"  // after all others: it defines fail as a macro

using namespace simpler;
using namespace simpler::control;

namespace {

template <class Function>
simpler_status code_of(Function function) {
  try {
    function();
  } catch (const Error &error) {
    return error.info().code;
  }
  return SIMPLER_OK;
}

Frame only_frame(const Bytes &bytes) {
  FrameDecoder decoder;
  decoder.feed(bytes);
  std::optional<Frame> frame = decoder.next();
  assert_true(frame.has_value());
  assert_false(decoder.next().has_value());
  return *frame;
}

CallableManifest full_manifest() {
  CallableManifest manifest;
  manifest.name = "name";
  for (size_t i = 0; i < manifest.digest.size(); i++) manifest.digest[i] = static_cast<uint8_t>(i * 7);
  manifest.images = {{0, 4096}, {8192, 12}};
  manifest.orchestration_symbol = "orchestrate";
  manifest.orchestration_image = 1;
  for (uint32_t i = 0; i < 50; i++)
    manifest.kernels.push_back({i * 1000, SIMPLER_CORE_AIV, i % 2, "kernel_" + std::to_string(i)});
  return manifest;
}

void messages_come_back_as_they_were_sent(void **) {
  const Frame hello = only_frame(encode_hello({"build", 42}));
  assert_true(hello.type == FrameType::kHello);
  assert_string_equal(decode_hello(hello.body).build_id.c_str(), "build");
  assert_int_equal(decode_hello(hello.body).pid, 42);

  ChipConfig config;
  config.chip = 3;
  config.platform = "a5sim";
  config.clusters = 36;
  config.heap_bytes = uint64_t{1} << 40;
  config.gm_bytes = 7;
  config.log_level = SIMPLER_LOG_DEBUG;
  const ChipConfig config_back = decode_configure(only_frame(encode_configure(config)).body);
  assert_string_equal(config_back.platform.c_str(), "a5sim");
  assert_true(config_back.heap_bytes == config.heap_bytes && config_back.gm_bytes == 7 && config_back.chip == 3);
  assert_int_equal(config_back.log_level, SIMPLER_LOG_DEBUG);

  const Frame request = only_frame(encode_register(9, 2, 3, full_manifest()));
  assert_int_equal(request.request, 9);
  const RegisterRequest register_back = decode_register(request.body);
  assert_int_equal(register_back.cid, 2);
  assert_int_equal(register_back.generation, 3);
  assert_true(register_back.manifest.digest == full_manifest().digest);
  assert_int_equal(register_back.manifest.images[1].offset, 8192);
  assert_int_equal(register_back.manifest.kernels.size(), 50);
  assert_string_equal(register_back.manifest.kernels[49].symbol.c_str(), "kernel_49");
  assert_string_equal(register_back.manifest.orchestration_symbol.c_str(), "orchestrate");

  const Frame map = only_frame(encode_map(5, {Segment::kGm, uint64_t{1} << 33}));
  assert_true(map.type == FrameType::kMap && map.request == 5);
  assert_true(decode_map(map.body).segment == Segment::kGm && decode_map(map.body).bytes == uint64_t{1} << 33);
  const Frame no_segment = only_frame(encode_map(5, {static_cast<Segment>(3), 1}));
  assert_int_equal(code_of([&] { decode_map(no_segment.body); }), SIMPLER_PROTOCOL_ERROR);

  ErrorInfo error;
  error.code = SIMPLER_LOAD_SYMBOL;
  error.message = "no symbol";
  const RegisterAnswer answer = decode_register_answer(only_frame(encode_register_answer(1, {error, {}})).body);
  assert_int_equal(answer.error.code, SIMPLER_LOAD_SYMBOL);
  assert_string_equal(answer.error.message.c_str(), "no symbol");
  const RegisterAnswer good = decode_register_answer(only_frame(encode_register_answer(1, {{}, {"n", 4, true}})).body);
  assert_true(good.error.ok() && good.loaded.has_orchestration && good.loaded.kernel_count == 4);
  assert_int_equal(decode_unregister(only_frame(encode_unregister(1, 5, 6)).body).generation, 6);
  assert_int_equal(decode_ready(only_frame(encode_ready({24, 72, 2})).body).cores, 72);
  assert_int_equal(decode_failure(only_frame(encode_failure(error)).body).code, SIMPLER_LOAD_SYMBOL);
  assert_true(decode_reply(only_frame(encode_reply(1, {})).body).ok());
  assert_true(only_frame(encode_ping(4)).type == FrameType::kPing);
  assert_true(only_frame(encode_shutdown(4)).type == FrameType::kShutdown);
}

void frames_are_found_in_a_stream_cut_anywhere(void **) {
  Bytes stream;
  for (uint32_t i = 0; i < 20; i++) {
    const Bytes one = i % 2 == 0 ? encode_ping(i) : encode_register(i, i, i, full_manifest());
    stream.insert(stream.end(), one.begin(), one.end());
  }
  for (const size_t step : {1u, 7u, 1000u}) {
    FrameDecoder decoder;
    uint32_t next = 0;
    for (size_t at = 0; at < stream.size(); at += step) {
      decoder.feed(std::span(stream).subspan(at, std::min(step, stream.size() - at)));
      while (std::optional<Frame> frame = decoder.next()) assert_int_equal(frame->request, next++);
    }
    assert_int_equal(next, 20);
  }
}

void broken_headers_are_refused(void **) {
  for (const size_t field : {0u, 4u, 11u}) {  // magic, version, length
    Bytes bytes = encode_ping(1);
    bytes[field] = std::byte{0xEE};
    FrameDecoder decoder;
    decoder.feed(bytes);
    assert_int_equal(code_of([&] { decoder.next(); }), SIMPLER_PROTOCOL_ERROR);
  }
}

void mutated_bodies_never_do_harm(void **) {
  std::mt19937_64 random(1);
  const Bytes messages[] = {encode_hello({"build", 42}),
                            encode_map(1, {Segment::kLink, 4096}),
                            encode_configure({}),
                            encode_register(9, 2, 3, full_manifest()),
                            encode_register_answer(1, {{}, {"n", 4, true}}),
                            encode_reply(1, {})};
  for (int round = 0; round < 20'000; round++) {
    for (const Bytes &message : messages) {
      Bytes body(message.begin() + sizeof(FrameHeader), message.end());
      for (uint64_t k = random() % 3 + 1; k > 0; k--) body[random() % body.size()] = static_cast<std::byte>(random());
      if (random() % 8 == 0) body.resize(random() % body.size());
      code_of([&] { decode_hello(body); });
      code_of([&] { decode_map(body); });
      code_of([&] { decode_configure(body); });
      code_of([&] { decode_register(body); });
      code_of([&] { decode_register_answer(body); });
      code_of([&] { decode_reply(body); });
    }
  }
}

void a_message_beyond_the_limit_is_refused_before_it_is_sent(void **) {
  CallableManifest manifest = full_manifest();
  manifest.name = std::string(2 << 20, 'x');
  assert_int_equal(code_of([&] { encode_register(1, 1, 1, manifest); }), SIMPLER_INVALID_ARGUMENT);
}

// ---- descriptors ----------------------------------------------------------------------------------------------------

struct Channel {
  int fds[2];
  Channel() { assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0); }
  ~Channel() {
    close(fds[0]);
    close(fds[1]);
  }
};

void descriptors_arrive_by_tag_and_close_on_exec(void **) {
  Channel channel;
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  send_descriptor(channel.fds[0], 7, null.get());
  const UniqueFd received = receive_descriptor(channel.fds[1], 7, 1000);
  assert_true(received.valid());
  assert_true((fcntl(received.get(), F_GETFD) & FD_CLOEXEC) != 0);
  assert_int_equal(write(received.get(), "x", 1), 1);
}

void a_descriptor_that_is_missing_or_of_another_request_is_an_error(void **) {
  Channel channel;
  assert_int_equal(code_of([&] { receive_descriptor(channel.fds[1], 7, 1); }), SIMPLER_PROTOCOL_ERROR);
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  send_descriptor(channel.fds[0], 8, null.get());
  assert_int_equal(code_of([&] { receive_descriptor(channel.fds[1], 7, 1000); }), SIMPLER_PROTOCOL_ERROR);
  const uint64_t tag = 9;
  assert_int_equal(send(channel.fds[0], &tag, sizeof tag, 0), sizeof tag);
  assert_int_equal(code_of([&] { receive_descriptor(channel.fds[1], 9, 1000); }), SIMPLER_PROTOCOL_ERROR);
}

void a_channel_that_nobody_reads_says_busy(void **) {
  Channel channel;
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  simpler_status status = SIMPLER_OK;
  for (uint64_t i = 0; i < 100'000 && status == SIMPLER_OK; i++)
    status = code_of([&] { send_descriptor(channel.fds[0], i, null.get()); });
  assert_int_equal(status, SIMPLER_BUSY);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      SIMPLER_TEST(messages_come_back_as_they_were_sent),
      SIMPLER_TEST(frames_are_found_in_a_stream_cut_anywhere),
      SIMPLER_TEST(broken_headers_are_refused),
      SIMPLER_TEST(mutated_bodies_never_do_harm),
      SIMPLER_TEST(a_message_beyond_the_limit_is_refused_before_it_is_sent),
      SIMPLER_TEST(descriptors_arrive_by_tag_and_close_on_exec),
      SIMPLER_TEST(a_descriptor_that_is_missing_or_of_another_request_is_an_error),
      SIMPLER_TEST(a_channel_that_nobody_reads_says_busy),
  };
  return simpler_run_tests(tests);
}
