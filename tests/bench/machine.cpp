#include "machine.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <nettle/sha2.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

namespace bench {

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double median_of(int rounds, const std::function<double()> &measure) {
  std::vector<double> values;
  for (int i = 0; i < rounds; i++) values.push_back(measure());
  return median(values);
}

// ---- round trips ------------------------------------------------------------------------------------------------------

namespace {

void die(const char *what) {
  std::perror(what);
  std::exit(1);
}

std::vector<int> usable_cpu_list() {
  cpu_set_t set;
  std::vector<int> cpus;
  sched_getaffinity(0, sizeof set, &set);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// Runs `answer` on a thread of its own, on the second CPU if there is one, and `ask` here, on the first. Returns ns per round.
double time_pair(int rounds, const std::function<void(int)> &ask, const std::function<void(int)> &answer) {
  cpu_set_t before;
  const std::vector<int> cpus = usable_cpu_list();
  sched_getaffinity(0, sizeof before, &before);
  std::thread peer([&] {
    pin_to(cpus.back());
    answer(rounds);
  });
  pin_to(cpus.front());
  const uint64_t start = now_ns();
  ask(rounds);
  const uint64_t end = now_ns();
  peer.join();
  sched_setaffinity(0, sizeof before, &before);
  return static_cast<double>(end - start) / rounds;
}

}  // namespace

double spinning_round_trip_ns() {
  if (usable_cpus() < 2) return -1;
  alignas(64) static std::atomic<int> word;
  std::vector<double> values;
  for (int batch = 0; batch < 9; batch++) {
    word = 0;
    values.push_back(time_pair(
        5'000,
        [](int rounds) {
          for (int i = 0; i < rounds; i++) {
            word.store(2 * i + 1, std::memory_order_release);
            while (word.load(std::memory_order_acquire) != 2 * i + 2) pause_cpu();
          }
        },
        [](int rounds) {
          for (int i = 0; i < rounds; i++) {
            while (word.load(std::memory_order_acquire) != 2 * i + 1) pause_cpu();
            word.store(2 * i + 2, std::memory_order_release);
          }
        }));
  }
  // The fastest batch: what the hardware takes, also when others use the CPUs now and then.
  return *std::min_element(values.begin(), values.end());
}

double parked_round_trip_ns() {
  alignas(64) static std::atomic<uint32_t> word;
  static_assert(sizeof word == sizeof(uint32_t));
  const auto sleep_while = [](uint32_t value) {
    while (word.load() == value) syscall(SYS_futex, &word, FUTEX_WAIT, value, nullptr, nullptr, 0);
  };
  const auto set = [](uint32_t value) {
    word.store(value);
    syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  };
  std::vector<double> values;
  for (int batch = 0; batch < 5; batch++) {
    word = 0;
    values.push_back(time_pair(
        1000,
        [&](int rounds) {
          for (int i = 0; i < rounds; i++) {
            set(1);
            sleep_while(1);
          }
        },
        [&](int rounds) {
          for (int i = 0; i < rounds; i++) {
            sleep_while(0);
            set(0);
          }
        }));
  }
  return median(values);
}

double pipe_round_trip_ns() {
  int there[2], back[2];
  char byte = 0;
  std::vector<double> values;
  if (pipe2(there, O_CLOEXEC) != 0 || pipe2(back, O_CLOEXEC) != 0) die("pipe2");
  for (int batch = 0; batch < 5; batch++) {
    values.push_back(time_pair(
        1000,
        [&](int rounds) {
          char mine = 0;
          for (int i = 0; i < rounds; i++)
            if (write(there[1], &mine, 1) != 1 || read(back[0], &mine, 1) != 1) die("pipe");
        },
        [&](int rounds) {
          for (int i = 0; i < rounds; i++)
            if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1) die("pipe");
        }));
  }
  for (const int fd : {there[0], there[1], back[0], back[1]}) close(fd);
  return median(values);
}

// ---- copies, processes, loading -----------------------------------------------------------------------------------------

double memcpy_gb_per_s(size_t bytes) {
  std::vector<char> from(bytes, 1), to(bytes, 2);
  const int repeats = std::max(1, static_cast<int>((size_t{256} << 20) / bytes));
  const double ns = median_of(5, [&] {
    const uint64_t start = now_ns();
    for (int i = 0; i < repeats; i++) {
      std::memcpy(to.data(), from.data(), bytes);
      __asm__ volatile("" : : "r"(to.data()) : "memory");
    }
    return static_cast<double>(now_ns() - start) / repeats;
  });
  return static_cast<double>(bytes) / ns;
}

double spawn_and_wait_ns(const std::string &program, int count) {
  std::vector<pid_t> pids(static_cast<size_t>(count));
  char *argv[] = {const_cast<char *>(program.c_str()), nullptr};
  const uint64_t start = now_ns();
  for (pid_t &pid : pids)
    if (posix_spawn(&pid, program.c_str(), nullptr, nullptr, argv, environ) != 0) die(program.c_str());
  for (const pid_t pid : pids) waitpid(pid, nullptr, 0);
  return static_cast<double>(now_ns() - start);
}

double hash_and_load_ns(const std::vector<unsigned char> &image, const char *symbol) {
  const uint64_t start = now_ns();
  sha256_ctx sha;
  uint8_t digest[SHA256_DIGEST_SIZE];
  sha256_init(&sha);
  sha256_update(&sha, image.size(), image.data());
  sha256_digest(&sha, sizeof digest, digest);
  const int fd = memfd_create("image", MFD_CLOEXEC);
  if (fd < 0 || write(fd, image.data(), image.size()) != static_cast<ssize_t>(image.size())) die("memfd");
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  void *object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr || dlsym(object, symbol) == nullptr) die("dlopen");
  dlclose(object);
  close(fd);
  return static_cast<double>(now_ns() - start);
}

// ---- what is used --------------------------------------------------------------------------------------------------------

ProcessUse use_of_process(int64_t pid) {
  ProcessUse use;
  const std::string root = "/proc/" + std::to_string(pid);
  std::string line;
  std::ifstream status(root + "/status");
  while (std::getline(status, line)) {
    if (line.rfind("VmRSS:", 0) == 0) use.resident_kib = std::atof(line.c_str() + 6);
    if (line.rfind("Threads:", 0) == 0) use.threads = std::atoi(line.c_str() + 8);
  }
  // schedstat counts ns; stat counts ticks of 10 ms, too coarse for an idle process.
  DIR *tasks = opendir((root + "/task").c_str());
  while (dirent *task = tasks != nullptr ? readdir(tasks) : nullptr) {
    if (task->d_name[0] == '.') continue;
    const std::string folder = root + "/task/" + task->d_name;
    double ns = 0;
    std::ifstream(folder + "/schedstat") >> ns;
    use.cpu_ns += ns;
    std::ifstream task_status(folder + "/status");
    while (std::getline(task_status, line))
      if (line.rfind("voluntary_ctxt_switches:", 0) == 0) use.sleeps += std::strtoull(line.c_str() + 24, nullptr, 10);
  }
  if (tasks != nullptr) closedir(tasks);
  return use;
}

double busy_ns() {
  std::ifstream stat("/proc/stat");
  std::string word;
  double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0;
  stat >> word >> user >> nice >> system >> idle >> wait >> irq >> soft >> steal;
  return (user + nice + system + irq + soft + steal) * 1e9 / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double own_ns() {
  double ns = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage use;
    getrusage(who, &use);
    for (const timeval &t : {use.ru_utime, use.ru_stime})
      ns += static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_usec) * 1e3;
  }
  return ns;
}

int usable_cpus() { return static_cast<int>(usable_cpu_list().size()); }

std::string machine_text() {
  utsname name;
  uname(&name);
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line, model = "unknown CPU";
  while (std::getline(cpuinfo, line)) {
    if (line.rfind("model name", 0) != 0) continue;
    model = line.substr(line.find(':') + 2);
    break;
  }
  std::ostringstream text;
  text << model << ", " << usable_cpus() << " usable CPUs, " << name.sysname << " " << name.release << " " << name.machine;
  return text.str();
}

}  // namespace bench
