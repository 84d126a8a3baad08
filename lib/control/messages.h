// The control plane's messages as plain values. frame.h turns them into bytes (FlatBuffers bodies, protocol.fbs) and back.
//
//   chip -> host: Hello, Ready, RegisterReply, UnregisterReply, Pong, ShutdownReply, Failure
//   host -> chip: Map (with a descriptor), Configure, Register (with a descriptor), Unregister, Ping, Shutdown
//
// Start-up: the chip says Hello at once; the host compares build ids and answers with Map for link and GM, and Configure; the
// chip maps, brings its cores up and says Ready (or Failure, and ends). A reply carries the request id of its request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/error.h"
#include "simpler/types.h"

namespace simpler::control {

// Shared memory that a chip maps.
enum class Segment : uint8_t {
  kLink = 1,
  kGm = 2
};

// What one chip is; also how a chip in-process is made.
struct ChipConfig {
  uint32_t chip = 0;
  std::string platform;
  uint32_t clusters = 0;           // used by this worker, at most the platform's
  uint32_t carriers = 0;           // 0: usable CPUs of the chip's process
  uint32_t callable_capacity = 0;  // cids
  uint32_t window = 0;
  uint64_t heap_bytes = 0;  // per scope depth
  uint64_t gm_bytes = 0;
  uint64_t link_bytes = 0;
  simpler_log_level log_level = SIMPLER_LOG_WARNING;
  bool is_seeded = false;  // runs come with seeds; chips in-process only, hence not in the message
};

struct ImageRange {  // in the image descriptor or span that comes with the manifest
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct KernelEntry {
  uint32_t kernel_id = 0;
  simpler_core_type core_type = 0;
  uint32_t image = 0;
  std::string symbol;
};

// How to load a callable. With one image, no orchestration symbol and no kernels, the image describes itself by the table
// SIMPLER_CALLABLE_TABLE_SYMBOL.
struct CallableManifest {
  std::string name;  // "": the table's, else "callable"
  Digest digest{};
  std::vector<ImageRange> images;
  std::string orchestration_symbol;  // "": none
  uint32_t orchestration_image = 0;
  std::vector<KernelEntry> kernels;
};

// What a chip found when it loaded one.
struct LoadedCallable {
  std::string name;
  uint32_t kernel_count = 0;
  bool has_orchestration = false;
};

struct ChipReady {
  uint32_t clusters = 0;
  uint32_t cores = 0;
  uint32_t carriers = 0;
};

}  // namespace simpler::control
