// A worker's options, checked and with every default filled in.
#pragma once

#include <cstdint>
#include <string>

#include "simpler.h"

namespace simpler::host {

struct WorkerConfig {
  std::string platform;
  uint32_t chips = 1;
  bool in_process = false;
  uint32_t clusters = 0;  // 0: all of the platform
  uint32_t carriers = 0;  // 0: usable CPUs
  uint32_t callable_capacity = 0;
  uint32_t window = 0;
  uint64_t heap_bytes = 0;
  uint64_t seed = 0;  // 0: not seeded
  uint64_t gm_bytes = 0;
  uint64_t start_limit_ns = 0;
  uint64_t close_limit_ns = 0;
  std::string chip_path;  // "": to be found
  simpler_log_level log_level = SIMPLER_LOG_WARNING;
};

// Throws INVALID_ARGUMENT or CAPACITY_CHIPS naming the option, what came and what is allowed. Reads $SIMPLER_LOG.
WorkerConfig check_options(const simpler_worker_options &options);

// Path of the executable simpler-chip. Throws NOT_FOUND with the paths that were tried.
std::string find_chip_executable(const std::string &option);

}  // namespace simpler::host
