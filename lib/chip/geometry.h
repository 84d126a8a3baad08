// What a simulated accelerator looks like: platforms, clusters, cores and their physical ids. Immutable data; any thread.
//
// A cluster is one cube core (AIC) and two vector cores (AIV). Inside lib/chip a core is named by its *index*,
// cluster * 3 + position; kernels see its *physical id*, which is unique on the chip whatever its type: cube cores come first,
// then the vector cores.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "simpler/types.h"

namespace simpler::chip {

inline constexpr uint32_t kCoresPerCluster = 3;
inline constexpr uint32_t kCoreTypes = 2;
inline constexpr uint32_t kClustersMax = 64;  // of any platform

struct Platform {
  std::string_view name;
  uint32_t clusters;
};

struct CoreIdentity {
  simpler_core_type type;
  uint32_t cluster;
  uint32_t position;  // SIMPLER_POSITION_...
  uint32_t physical_id;
};

// Number of a core type for use as an array index: AIC 0, AIV 1.
constexpr uint32_t type_index(simpler_core_type type) { return type == SIMPLER_CORE_AIC ? 0 : 1; }
const char *core_type_name(simpler_core_type type);

// Throws INVALID_ARGUMENT with the list of known platforms.
const Platform &find_platform(std::string_view name);

class Geometry {
 public:
  // `clusters` of the platform are used; 0 means all. Throws INVALID_ARGUMENT when the platform has fewer.
  Geometry(std::string_view platform, uint32_t clusters);

  const Platform &platform() const { return *platform_; }
  uint32_t clusters() const { return clusters_; }
  uint32_t cores() const { return clusters_ * kCoresPerCluster; }
  uint32_t cores(simpler_core_type type) const { return type == SIMPLER_CORE_AIC ? clusters_ : clusters_ * 2; }
  CoreIdentity core(uint32_t index) const;
  // Index of the `number`-th core of a type, in physical order.
  uint32_t index_of(simpler_core_type type, uint32_t number) const;

 private:
  const Platform *platform_;
  uint32_t clusters_;
};

}  // namespace simpler::chip
