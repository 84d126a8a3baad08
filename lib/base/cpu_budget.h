// How many CPUs this process may really use: the affinity mask, bounded by the cgroup's CPU quota (v2 and v1).
#pragma once

#include <cstdint>
#include <string>

namespace simpler {

// At least 1. Reads the mask and the cgroup files anew at each call; never fails (what cannot be read does not limit).
uint32_t usable_cpus();

// The quota part alone, for tests: the CPUs (rounded up) that `root` (normally "") + /sys/fs/cgroup and /proc/self/cgroup
// allow, or 0 when there is no quota.
uint32_t cgroup_cpu_quota(const std::string &root);

}  // namespace simpler
