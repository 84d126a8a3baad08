// main() of simpler-chip: the process of one simulated chip. Started by libsimpler with its control pipe and descriptor channel
// at fixed numbers (control/spawn.h); lives as long as its host.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "build_id.h"
#include "chip/chip.h"
#include "control/chip_channel.h"
#include "control/spawn.h"
#include "simpler.h"

namespace {

using namespace simpler;

constexpr int kUsageExitCode = 2;

bool is_socket(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

int explain(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--version") == 0) {
    printf("simpler-chip %d.%d.%d (build %s)\n", SIMPLER_VERSION_MAJOR, SIMPLER_VERSION_MINOR, SIMPLER_VERSION_PATCH,
           SIMPLER_BUILD_ID);
    return 0;
  }
  fputs(
      "simpler-chip is the process of one simulated chip. libsimpler starts it by itself when a program creates a worker; "
      "there "
      "is nothing to be done with it by hand.\nusage: simpler-chip --version\n",
      stderr);
  return kUsageExitCode;
}

// The child must not outlive its host. The signal covers a host that is killed; the pipe's end covers everything else.
void tie_to_parent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kUsageExitCode);  // it died before the line above
}

// Whatever the host had open without close-on-exec is not ours to keep.
void close_other_descriptors() {
  const unsigned first = control::kChipDescriptorFd + 1;
  if (syscall(SYS_close_range, first, ~0u, 0) == 0) return;
  rlimit limit;
  const int last =
      getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 65536 ? static_cast<int>(limit.rlim_cur) : 65536;
  for (int fd = static_cast<int>(first); fd < last; fd++) close(fd);
}

void set_up_signals() {
  signal(SIGINT, SIG_IGN);  // Ctrl-C is for the host, which closes its chips
  signal(SIGPIPE, SIG_IGN);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3 || strcmp(argv[1], control::kChipArgument) != 0 || !is_socket(control::kChipControlFd) ||
      !is_socket(control::kChipDescriptorFd))
    return explain(argc, argv);
  tie_to_parent(static_cast<pid_t>(strtol(argv[2], nullptr, 10)));
  close_other_descriptors();
  set_up_signals();

  // In this order, so that the chip is destroyed before the memory that it works in.
  SharedMemory link_memory;
  SharedMemory gm;
  std::unique_ptr<chip::Chip> chip;

  control::ChipHandler handler;
  handler.configure = [&](const control::ChipConfig &config, SharedMemory link, SharedMemory global_memory) {
    SIMPLER_ASSERT(chip == nullptr && link.bytes() >= control::kLinkBytes);
    link_memory = std::move(link);
    gm = std::move(global_memory);
    chip = std::make_unique<chip::Chip>(config, control::Link::attach(link_memory.data()), gm.span());
    return chip->ready();
  };
  handler.load = [&](const control::RegisterRequest &request, UniqueFd images) {
    SIMPLER_ASSERT(chip != nullptr);
    return chip->load(request.cid, request.generation, request.manifest, std::move(images));
  };
  handler.unload = [&](const control::UnregisterRequest &request) {
    SIMPLER_ASSERT(chip != nullptr);
    chip->unload(request.cid, request.generation);
  };
  handler.stop = [&] {
    if (chip != nullptr) chip->stop();
  };
  int exit_code = 1;
  try {
    exit_code = control::serve_host(UniqueFd(control::kChipControlFd), UniqueFd(control::kChipDescriptorFd),
                                    {SIMPLER_BUILD_ID, getpid()}, handler);
  } catch (...) {
    const ErrorInfo info = capture_current_exception();
    dprintf(STDERR_FILENO, "simpler-chip: %s: %s\n", status_name(info.code), info.message.c_str());
  }
  // Destructors of loaded callables' statics are not worth a hang: the process ends here.
  _exit(exit_code);
}
