#include "host/options.h"

#include <bit>
#include <cstdlib>
#include <dlfcn.h>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "base/error.h"
#include "chip/geometry.h"

namespace simpler::host {

namespace {

constexpr uint32_t kChipsMax = 64;
constexpr uint32_t kCarriersMax = 256;
constexpr uint32_t kCallablesDefault = 1024;
constexpr uint32_t kCallablesMax = 65536;
constexpr uint32_t kWindowDefault = 4096;
constexpr uint32_t kWindowMin = 4;
constexpr uint32_t kWindowMax = 65536;
constexpr uint64_t kHeapBytesDefault = uint64_t{256} << 20;
constexpr uint64_t kHeapBytesMin = uint64_t{4} << 10;
constexpr uint64_t kMemoryBytesMax = uint64_t{1} << 40;
constexpr uint64_t kGmBytesDefault = uint64_t{4} << 30;
constexpr uint64_t kGmBytesMin = uint64_t{1} << 20;
constexpr uint64_t kStartLimitDefaultNs = 60'000'000'000u;
constexpr uint64_t kCloseLimitDefaultNs = 5'000'000'000u;

// The value, or its default where it is 0.
template <class T>
T in_range(const char *option, T value, T fallback, T min, T max) {
  if (value == 0) return fallback;
  if (value < min || value > max)
    throw_error(SIMPLER_INVALID_ARGUMENT, "option {} is {}; allowed are {} to {}, or 0 for the default ({})", option, value,
                min, max, fallback);
  return value;
}

simpler_log_level log_level_of(simpler_log_level option) {
  if (option < SIMPLER_LOG_OFF || option > SIMPLER_LOG_DEBUG)
    throw_error(SIMPLER_INVALID_ARGUMENT, "option log_level is {}; allowed are {} (off) to {} (debug)", option,
                static_cast<int>(SIMPLER_LOG_OFF), static_cast<int>(SIMPLER_LOG_DEBUG));
  const char *variable = getenv("SIMPLER_LOG");
  if (variable == nullptr || *variable == '\0') return option;
  static constexpr std::string_view kNames[] = {"off", "error", "warning", "info", "debug"};
  for (simpler_log_level level = SIMPLER_LOG_OFF; level <= SIMPLER_LOG_DEBUG; level++) {
    if (variable == kNames[level]) return level;
  }
  throw_error(SIMPLER_INVALID_ARGUMENT,
              "the environment variable SIMPLER_LOG is '{}'; allowed are off, error, warning, info, debug", variable);
}

bool is_executable_file(const std::string &path) { return access(path.c_str(), X_OK) == 0; }

// The folder of the library (or program) that this code was loaded from.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void *>(&find_chip_executable), &info) == 0 || info.dli_fname == nullptr) return {};
  std::string path = info.dli_fname;
  if (char *absolute = realpath(path.c_str(), nullptr)) {
    path = absolute;
    free(absolute);
  }
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string(".") : path.substr(0, slash);
}

}  // namespace

WorkerConfig check_options(const simpler_worker_options &options) {
  WorkerConfig config;
  config.platform = options.platform != nullptr ? options.platform : "a2a3sim";
  if (options.chips == 0) throw_error(SIMPLER_INVALID_ARGUMENT, "option chips is 0; allowed are 1 to {}", kChipsMax);
  if (options.chips > kChipsMax)
    throw_error(SIMPLER_CAPACITY_CHIPS, "option chips is {}; allowed are 1 to {}", options.chips, kChipsMax);
  config.chips = options.chips;
  if (options.isolation != SIMPLER_ISOLATION_PROCESS && options.isolation != SIMPLER_ISOLATION_IN_PROCESS)
    throw_error(SIMPLER_INVALID_ARGUMENT, "option isolation is {}; allowed are {} (process) and {} (in-process)",
                options.isolation, static_cast<unsigned>(SIMPLER_ISOLATION_PROCESS),
                static_cast<unsigned>(SIMPLER_ISOLATION_IN_PROCESS));
  config.in_process = options.isolation == SIMPLER_ISOLATION_IN_PROCESS;
  const chip::Platform &platform = chip::find_platform(config.platform);  // throws for an unknown one, with the known ones
  if (options.clusters_per_chip > platform.clusters)
    throw_error(SIMPLER_INVALID_ARGUMENT, "option clusters_per_chip is {}; allowed are 1 to {} on {}, or 0 for all",
                options.clusters_per_chip, platform.clusters, platform.name);
  const chip::Geometry geometry(config.platform, options.clusters_per_chip);
  config.clusters = geometry.clusters();
  config.carriers = in_range("carriers_per_chip", options.carriers_per_chip, 0u, 1u, kCarriersMax);
  if (config.carriers > geometry.cores()) config.carriers = geometry.cores();
  config.callable_capacity = in_range("callable_capacity", options.callable_capacity, kCallablesDefault, 1u, kCallablesMax);
  config.window = in_range("window", options.window, kWindowDefault, kWindowMin, kWindowMax);
  if (!std::has_single_bit(config.window))
    throw_error(SIMPLER_INVALID_ARGUMENT, "option window is {}; allowed are powers of two from {} to {}", config.window,
                kWindowMin, kWindowMax);
  config.heap_bytes = in_range("heap_bytes", options.heap_bytes, kHeapBytesDefault, kHeapBytesMin, kMemoryBytesMax);
  config.gm_bytes = in_range("gm_bytes", options.gm_bytes, kGmBytesDefault, kGmBytesMin, kMemoryBytesMax);
  if (options.seed != 0 && !config.in_process)
    throw_error(SIMPLER_INVALID_ARGUMENT,
                "option seed is {} with isolation {} (process); a reproducible order needs isolation {} (in-process)",
                options.seed, options.isolation, static_cast<unsigned>(SIMPLER_ISOLATION_IN_PROCESS));
  config.seed = options.seed;
  config.start_limit_ns = options.start_limit_ns != 0 ? options.start_limit_ns : kStartLimitDefaultNs;
  config.close_limit_ns = options.close_limit_ns != 0 ? options.close_limit_ns : kCloseLimitDefaultNs;
  if (options.chip_path != nullptr) config.chip_path = options.chip_path;
  config.log_level = log_level_of(options.log_level);
  if (options.reserved != 0) throw_error(SIMPLER_INVALID_ARGUMENT, "option reserved is {}; it must be 0", options.reserved);
  return config;
}

std::string find_chip_executable(const std::string &option) {
  if (!option.empty()) {
    if (is_executable_file(option)) return option;
    throw_error(SIMPLER_NOT_FOUND, "option chip_path: {} does not exist or is not executable", option);
  }
  const char *variable = getenv("SIMPLER_CHIP_PATH");
  if (variable != nullptr && *variable != '\0') {
    if (is_executable_file(variable)) return variable;
    throw_error(SIMPLER_NOT_FOUND, "environment variable SIMPLER_CHIP_PATH: {} does not exist or is not executable",
                variable);
  }
  const std::string folder = own_folder();
  const std::string beside = folder + "/simpler-chip";
  const std::string installed = folder + "/simpler/simpler-chip";
  for (const std::string &path : {beside, installed}) {
    if (is_executable_file(path)) return path;
  }
  throw_error(
      SIMPLER_NOT_FOUND,
      "the chip executable was not found: tried {} and {}; install libsimpler as a whole, or set option chip_path or "
      "environment variable SIMPLER_CHIP_PATH",
      beside, installed);
}

}  // namespace simpler::host
