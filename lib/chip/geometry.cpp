#include "chip/geometry.h"

#include <iterator>

#include "base/error.h"
#include "simpler/device.h"

namespace simpler::chip {

namespace {

constexpr Platform kPlatforms[] = {
    {"a2a3sim", 24},
    {"a5sim", 36},
};

constexpr bool all_within_limit() {
  for (const Platform &platform : kPlatforms)
    if (platform.clusters == 0 || platform.clusters > kClustersMax) return false;
  return true;
}
static_assert(all_within_limit());

}  // namespace

const char *core_type_name(simpler_core_type type) {
  return type == SIMPLER_CORE_AIC ? "AIC" : type == SIMPLER_CORE_AIV ? "AIV" : "unknown";
}

const Platform &find_platform(std::string_view name) {
  std::string known;
  for (const Platform &platform : kPlatforms) {
    if (platform.name == name) return platform;
    known += fmt::format("{}{} ({} clusters)", known.empty() ? "" : ", ", platform.name, platform.clusters);
  }
  throw_error(SIMPLER_INVALID_ARGUMENT, "unknown platform \"{}\"; known: {}", name, known);
}

Geometry::Geometry(std::string_view platform, uint32_t clusters)
    : platform_(&find_platform(platform)), clusters_(clusters == 0 ? platform_->clusters : clusters) {
  if (clusters_ > platform_->clusters)
    throw_error(SIMPLER_INVALID_ARGUMENT, "clusters: {} asked for, platform {} has {}", clusters_, platform_->name,
                platform_->clusters);
}

CoreIdentity Geometry::core(uint32_t index) const {
  SIMPLER_ASSERT(index < cores());
  const uint32_t cluster = index / kCoresPerCluster;
  const uint32_t position = index % kCoresPerCluster;
  if (position == SIMPLER_POSITION_AIC) return {SIMPLER_CORE_AIC, cluster, position, cluster};
  return {SIMPLER_CORE_AIV, cluster, position, platform_->clusters + cluster * 2 + (position - SIMPLER_POSITION_AIV0)};
}

uint32_t Geometry::index_of(simpler_core_type type, uint32_t number) const {
  SIMPLER_ASSERT(number < cores(type));
  if (type == SIMPLER_CORE_AIC) return number * kCoresPerCluster + SIMPLER_POSITION_AIC;
  return number / 2 * kCoresPerCluster + SIMPLER_POSITION_AIV0 + number % 2;
}

}  // namespace simpler::chip
