#include "base/cpu_budget.h"

#include <algorithm>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <vector>

namespace simpler {

namespace {

uint32_t affinity_cpus() {
  // The kernel's mask may be larger than cpu_set_t; grow until it fits.
  for (size_t cpus = 1024; cpus <= 1024 * 1024; cpus *= 2) {
    cpu_set_t *set = CPU_ALLOC(cpus);
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    const int result = sched_getaffinity(0, bytes, set);
    const int count = result == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (result == 0) return static_cast<uint32_t>(std::max(count, 1));
  }
  return 1;
}

uint32_t quota_to_cpus(int64_t quota, int64_t period) {
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<uint32_t>(std::max<int64_t>((quota + period - 1) / period, 1));
}

// The tightest quota on the way from the process's own group up to the root of the hierarchy.
template <class ReadGroup>
uint32_t tightest(std::string group, ReadGroup read_group) {
  uint32_t cpus = 0;
  for (;;) {
    const uint32_t here = read_group(group);
    if (here != 0 && (cpus == 0 || here < cpus)) cpus = here;
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos || group.empty()) return cpus;
    group.resize(slash);
  }
}

int64_t read_number(const std::string &path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : 0;
}

}  // namespace

uint32_t cgroup_cpu_quota(const std::string &root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  uint32_t cpus = 0;
  for (std::string line; std::getline(groups, line);) {
    // "0::/path" for v2, "4:cpu,cpuacct:/path" for v1
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    uint32_t here = 0;
    if (controllers == ",,") {
      here = tightest(group, [&](const std::string &path) {
        std::ifstream file(root + "/sys/fs/cgroup" + path + "/cpu.max");
        std::string quota;
        int64_t period = 0;
        if (!(file >> quota >> period) || quota == "max") return 0u;
        std::istringstream number(quota);
        int64_t value = 0;
        return number >> value ? quota_to_cpus(value, period) : 0u;
      });
    } else if (controllers.find(",cpu,") != std::string::npos) {
      here = tightest(group, [&](const std::string &path) {
        const std::string folder = root + "/sys/fs/cgroup/cpu" + path;
        return quota_to_cpus(read_number(folder + "/cpu.cfs_quota_us"), read_number(folder + "/cpu.cfs_period_us"));
      });
    }
    if (here != 0 && (cpus == 0 || here < cpus)) cpus = here;
  }
  return cpus;
}

uint32_t usable_cpus() {
  const uint32_t affinity = affinity_cpus();
  const uint32_t quota = cgroup_cpu_quota("");
  return quota != 0 ? std::min(affinity, quota) : affinity;
}

}  // namespace simpler
