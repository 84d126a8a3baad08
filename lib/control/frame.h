// Frames of the control pipe: a fixed header, then a FlatBuffers body (protocol.fbs).
//
// Every byte that comes from the other side is checked: header, length, and the body by FlatBuffers' verifier, before a field
// is looked at. The decoder takes bytes as they come and gives whole frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "control/messages.h"

namespace simpler::control {

enum class FrameType : uint16_t {
  kHello = 1,
  kConfigure = 2,
  kReady = 3,
  kFailure = 4,
  kRegister = 5,
  kRegisterReply = 6,
  kUnregister = 7,
  kPing = 8,
  kShutdown = 9,
  kReply = 10,
  kMap = 11,
};
const char *frame_type_name(FrameType type);

inline constexpr uint32_t kFrameMagic = 0x504C4D53;  // "SMLP"
inline constexpr uint16_t kFrameVersion = 1;
inline constexpr uint32_t kFrameBodyBytesMax = 1u << 20;

struct FrameHeader {
  uint32_t magic = kFrameMagic;
  uint16_t version = kFrameVersion;
  FrameType type = FrameType::kPing;
  uint32_t body_bytes = 0;
  uint32_t request = 0;  // chosen by who asks, repeated in the reply
};
static_assert(sizeof(FrameHeader) == 16);

struct Frame {
  FrameType type;
  uint32_t request;
  std::vector<std::byte> body;
};

class FrameDecoder {
 public:
  // Takes bytes as they arrive.
  void feed(std::span<const std::byte> bytes);
  // The next whole frame, if there is one. Throws PROTOCOL_ERROR; the stream is then of no further use.
  std::optional<Frame> next();

 private:
  std::vector<std::byte> bytes_;
  size_t start_ = 0;
};

// ---- messages <-> frames ------------------------------------------------------------------------------------------------
//
// encode_* give header and body in one piece. decode_* throw PROTOCOL_ERROR for a body that is not of that type.

struct Hello {
  std::string build_id;
  int64_t pid = 0;
};
struct MapRequest {
  Segment segment = Segment::kLink;
  uint64_t bytes = 0;
};
struct RegisterRequest {
  uint32_t cid = 0;
  uint32_t generation = 0;
  CallableManifest manifest;
};
struct UnregisterRequest {
  uint32_t cid = 0;
  uint32_t generation = 0;
};
struct RegisterAnswer {
  ErrorInfo error;
  LoadedCallable loaded;
};

using Bytes = std::vector<std::byte>;

Bytes encode_hello(const Hello &hello);
Bytes encode_map(uint32_t request, const MapRequest &map);
Bytes encode_configure(const ChipConfig &config);
Bytes encode_ready(const ChipReady &ready);
Bytes encode_failure(const ErrorInfo &error);
Bytes encode_register(uint32_t request, uint32_t cid, uint32_t generation, const CallableManifest &manifest);
Bytes encode_register_answer(uint32_t request, const RegisterAnswer &answer);
Bytes encode_unregister(uint32_t request, uint32_t cid, uint32_t generation);
Bytes encode_ping(uint32_t request);
Bytes encode_shutdown(uint32_t request);
Bytes encode_reply(uint32_t request, const ErrorInfo &error);

Hello decode_hello(std::span<const std::byte> body);
MapRequest decode_map(std::span<const std::byte> body);
ChipConfig decode_configure(std::span<const std::byte> body);
ChipReady decode_ready(std::span<const std::byte> body);
ErrorInfo decode_failure(std::span<const std::byte> body);
RegisterRequest decode_register(std::span<const std::byte> body);
RegisterAnswer decode_register_answer(std::span<const std::byte> body);
UnregisterRequest decode_unregister(std::span<const std::byte> body);
ErrorInfo decode_reply(std::span<const std::byte> body);

}  // namespace simpler::control
