#include "control/frame.h"

#include <algorithm>
#include <cstring>

#include "protocol_generated.h"

namespace simpler::control {

namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

constexpr size_t kMessageBytesMax = 4000;  // of an error's text; longer ones are cut

Bytes frame_of(FrameType type, uint32_t request, const FlatBufferBuilder &builder) {
  const uint32_t body_bytes = builder.GetSize();
  if (body_bytes > kFrameBodyBytesMax)
    throw_error(SIMPLER_INVALID_ARGUMENT, "a control message {} of {} bytes; at most {} can be sent", frame_type_name(type),
                body_bytes, kFrameBodyBytesMax);
  const FrameHeader header{kFrameMagic, kFrameVersion, type, body_bytes, request};
  Bytes bytes(sizeof header + body_bytes);
  memcpy(bytes.data(), &header, sizeof header);
  memcpy(bytes.data() + sizeof header, builder.GetBufferPointer(), body_bytes);
  return bytes;
}

template <class Table>
const Table &root(std::span<const std::byte> body, FrameType type) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(body.data());
  flatbuffers::Verifier verifier(bytes, body.size(), 16, 100'000);
  if (!verifier.VerifyBuffer<Table>(nullptr))
    throw_error(SIMPLER_PROTOCOL_ERROR, "the body of a {} message ({} bytes) is malformed", frame_type_name(type),
                body.size());
  return *flatbuffers::GetRoot<Table>(bytes);
}

std::string text(const flatbuffers::String *string) { return string != nullptr ? string->str() : std::string(); }

Offset<wire::Error> put_error(FlatBufferBuilder &builder, const ErrorInfo &error) {
  if (error.ok()) return 0;
  const auto message = builder.CreateString(error.message.data(), std::min(error.message.size(), kMessageBytesMax));
  return wire::CreateError(builder, error.code, message);
}

ErrorInfo get_error(const wire::Error *error) {
  ErrorInfo info;
  if (error == nullptr) return info;
  // A peer that reports an error with code OK would otherwise be taken for success.
  info.code = error->code() != SIMPLER_OK ? error->code() : SIMPLER_PROTOCOL_ERROR;
  info.message = text(error->message());
  return info;
}

}  // namespace

const char *frame_type_name(FrameType type) {
  switch (type) {
    case FrameType::kHello:
      return "HELLO";
    case FrameType::kConfigure:
      return "CONFIGURE";
    case FrameType::kReady:
      return "READY";
    case FrameType::kFailure:
      return "FAILURE";
    case FrameType::kRegister:
      return "REGISTER";
    case FrameType::kRegisterReply:
      return "REGISTER_REPLY";
    case FrameType::kUnregister:
      return "UNREGISTER";
    case FrameType::kPing:
      return "PING";
    case FrameType::kShutdown:
      return "SHUTDOWN";
    case FrameType::kReply:
      return "REPLY";
    case FrameType::kMap:
      return "MAP";
  }
  return "unknown";
}

// ---- decoder --------------------------------------------------------------------------------------------------------

void FrameDecoder::feed(std::span<const std::byte> bytes) {
  if (start_ != 0) {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(start_));
    start_ = 0;
  }
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

std::optional<Frame> FrameDecoder::next() {
  if (bytes_.size() - start_ < sizeof(FrameHeader)) return std::nullopt;
  FrameHeader header;
  memcpy(&header, bytes_.data() + start_, sizeof header);
  if (header.magic != kFrameMagic)
    throw_error(SIMPLER_PROTOCOL_ERROR, "a frame begins with {:#010x} instead of {:#010x}", header.magic, kFrameMagic);
  if (header.version != kFrameVersion)
    throw_error(SIMPLER_PROTOCOL_ERROR, "a frame of version {}; this side speaks version {}", header.version, kFrameVersion);
  if (header.body_bytes > kFrameBodyBytesMax)
    throw_error(SIMPLER_PROTOCOL_ERROR, "a frame announces {} bytes; at most {} are allowed", header.body_bytes,
                kFrameBodyBytesMax);
  if (bytes_.size() - start_ - sizeof header < header.body_bytes) return std::nullopt;
  const auto body = bytes_.begin() + static_cast<ptrdiff_t>(start_ + sizeof header);
  Frame frame{header.type, header.request, Bytes(body, body + header.body_bytes)};
  start_ += sizeof header + header.body_bytes;
  return frame;
}

// ---- messages -------------------------------------------------------------------------------------------------------

Bytes encode_hello(const Hello &hello) {
  FlatBufferBuilder builder;
  builder.Finish(wire::CreateHelloDirect(builder, hello.build_id.c_str(), hello.pid));
  return frame_of(FrameType::kHello, 0, builder);
}

Hello decode_hello(std::span<const std::byte> body) {
  const auto &hello = root<wire::Hello>(body, FrameType::kHello);
  return {text(hello.build_id()), hello.pid()};
}

Bytes encode_map(uint32_t request, const MapRequest &map) {
  FlatBufferBuilder builder;
  builder.Finish(wire::CreateMap(builder, static_cast<uint8_t>(map.segment), map.bytes));
  return frame_of(FrameType::kMap, request, builder);
}

MapRequest decode_map(std::span<const std::byte> body) {
  const auto &map = root<wire::Map>(body, FrameType::kMap);
  const auto segment = static_cast<Segment>(map.segment());
  if (segment != Segment::kLink && segment != Segment::kGm)
    throw_error(SIMPLER_PROTOCOL_ERROR, "a MAP message for segment {}, which does not exist", map.segment());
  return {segment, map.bytes()};
}

Bytes encode_configure(const ChipConfig &config) {
  FlatBufferBuilder builder;
  builder.Finish(wire::CreateConfigureDirect(builder, config.chip, config.platform.c_str(), config.clusters, config.carriers,
                                             config.callable_capacity, config.window, config.heap_bytes, config.gm_bytes,
                                             config.link_bytes, config.log_level));
  return frame_of(FrameType::kConfigure, 0, builder);
}

ChipConfig decode_configure(std::span<const std::byte> body) {
  const auto &wire_config = root<wire::Configure>(body, FrameType::kConfigure);
  ChipConfig config;
  config.chip = wire_config.chip();
  config.platform = text(wire_config.platform());
  config.clusters = wire_config.clusters();
  config.carriers = wire_config.carriers();
  config.callable_capacity = wire_config.callable_capacity();
  config.window = wire_config.window();
  config.heap_bytes = wire_config.heap_bytes();
  config.gm_bytes = wire_config.gm_bytes();
  config.link_bytes = wire_config.link_bytes();
  config.log_level = wire_config.log_level();
  return config;
}

Bytes encode_ready(const ChipReady &ready) {
  FlatBufferBuilder builder;
  builder.Finish(wire::CreateReady(builder, ready.clusters, ready.cores, ready.carriers));
  return frame_of(FrameType::kReady, 0, builder);
}

ChipReady decode_ready(std::span<const std::byte> body) {
  const auto &ready = root<wire::Ready>(body, FrameType::kReady);
  return {ready.clusters(), ready.cores(), ready.carriers()};
}

Bytes encode_failure(const ErrorInfo &error) {
  FlatBufferBuilder builder;
  const auto wire_error = put_error(builder, error);
  builder.Finish(wire::CreateFailure(builder, wire_error));
  return frame_of(FrameType::kFailure, 0, builder);
}

ErrorInfo decode_failure(std::span<const std::byte> body) {
  return get_error(root<wire::Failure>(body, FrameType::kFailure).error());
}

Bytes encode_register(uint32_t request, uint32_t cid, uint32_t generation, const CallableManifest &manifest) {
  FlatBufferBuilder builder;
  std::vector<Offset<wire::Image>> images;
  for (const ImageRange &image : manifest.images) images.push_back(wire::CreateImage(builder, image.offset, image.bytes));
  std::vector<Offset<wire::Kernel>> kernels;
  for (const KernelEntry &kernel : manifest.kernels)
    kernels.push_back(
        wire::CreateKernelDirect(builder, kernel.kernel_id, kernel.core_type, kernel.image, kernel.symbol.c_str()));
  const wire::Digest digest{flatbuffers::span<const uint8_t, 32>(manifest.digest)};
  builder.Finish(wire::CreateRegisterDirect(builder, cid, generation, manifest.name.c_str(), &digest, &images,
                                            manifest.orchestration_symbol.c_str(), manifest.orchestration_image, &kernels));
  return frame_of(FrameType::kRegister, request, builder);
}

RegisterRequest decode_register(std::span<const std::byte> body) {
  const auto &wire_register = root<wire::Register>(body, FrameType::kRegister);
  RegisterRequest request;
  request.cid = wire_register.cid();
  request.generation = wire_register.generation();
  CallableManifest &manifest = request.manifest;
  manifest.name = text(wire_register.name());
  for (unsigned i = 0; i < manifest.digest.size(); i++) manifest.digest[i] = wire_register.digest()->bytes()->Get(i);
  for (const wire::Image *image : *wire_register.images()) manifest.images.push_back({image->offset(), image->bytes()});
  manifest.orchestration_symbol = text(wire_register.orchestration_symbol());
  manifest.orchestration_image = wire_register.orchestration_image();
  if (wire_register.kernels() != nullptr) {
    for (const wire::Kernel *kernel : *wire_register.kernels())
      manifest.kernels.push_back({kernel->kernel_id(), kernel->core_type(), kernel->image(), text(kernel->symbol())});
  }
  return request;
}

Bytes encode_register_answer(uint32_t request, const RegisterAnswer &answer) {
  FlatBufferBuilder builder;
  const auto error = put_error(builder, answer.error);
  const auto name = builder.CreateString(answer.loaded.name);
  builder.Finish(
      wire::CreateRegisterReply(builder, error, name, answer.loaded.kernel_count, answer.loaded.has_orchestration));
  return frame_of(FrameType::kRegisterReply, request, builder);
}

RegisterAnswer decode_register_answer(std::span<const std::byte> body) {
  const auto &reply = root<wire::RegisterReply>(body, FrameType::kRegisterReply);
  return {get_error(reply.error()), {text(reply.name()), reply.kernel_count(), reply.has_orchestration()}};
}

Bytes encode_unregister(uint32_t request, uint32_t cid, uint32_t generation) {
  FlatBufferBuilder builder;
  builder.Finish(wire::CreateUnregister(builder, cid, generation));
  return frame_of(FrameType::kUnregister, request, builder);
}

UnregisterRequest decode_unregister(std::span<const std::byte> body) {
  const auto &request = root<wire::Unregister>(body, FrameType::kUnregister);
  return {request.cid(), request.generation()};
}

Bytes encode_ping(uint32_t request) {
  FlatBufferBuilder builder;
  builder.Finish(wire::CreatePing(builder));
  return frame_of(FrameType::kPing, request, builder);
}

Bytes encode_shutdown(uint32_t request) {
  FlatBufferBuilder builder;
  builder.Finish(wire::CreateShutdown(builder));
  return frame_of(FrameType::kShutdown, request, builder);
}

Bytes encode_reply(uint32_t request, const ErrorInfo &error) {
  FlatBufferBuilder builder;
  const auto wire_error = put_error(builder, error);
  builder.Finish(wire::CreateReply(builder, wire_error));
  return frame_of(FrameType::kReply, request, builder);
}

ErrorInfo decode_reply(std::span<const std::byte> body) {
  return get_error(root<wire::Reply>(body, FrameType::kReply).error());
}

}  // namespace simpler::control
