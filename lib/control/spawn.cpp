#include "control/spawn.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

namespace simpler::control {

namespace {

// Descriptors are first moved above the numbers that the child uses, so that placing one cannot overwrite another.
constexpr int kFirstFreeFd = 10;

struct SocketPair {
  UniqueFd ours;
  UniqueFd theirs;
};

SocketPair make_pair(int type) {
  int fds[2];
  if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) != 0) throw_system_error(errno, "creating a socket pair for a chip");
  SocketPair pair{UniqueFd(fds[0]), UniqueFd(fds[1])};
  pair.ours = above_standard(std::move(pair.ours));
  const int moved = fcntl(pair.theirs.get(), F_DUPFD_CLOEXEC, kFirstFreeFd);
  if (moved < 0) throw_system_error(errno, "duplicating a descriptor for a chip");
  pair.theirs = UniqueFd(moved);
  return pair;
}

class SpawnActions {
 public:
  SpawnActions() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  ~SpawnActions() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnActions(const SpawnActions &) = delete;
  SpawnActions &operator=(const SpawnActions &) = delete;

  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

SpawnedChip spawn_chip(const std::string &path) {
  SocketPair control = make_pair(SOCK_STREAM | SOCK_NONBLOCK);
  SocketPair descriptors = make_pair(SOCK_SEQPACKET | SOCK_NONBLOCK);

  SpawnActions spawn;
  posix_spawn_file_actions_addopen(&spawn.actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  // A host may have closed its stderr; then nobody sees what a kernel prints.
  if (fcntl(STDERR_FILENO, F_GETFD) >= 0)
    posix_spawn_file_actions_adddup2(&spawn.actions_, STDERR_FILENO, STDERR_FILENO);  // stays open, also if close-on-exec
  else
    posix_spawn_file_actions_addopen(&spawn.actions_, STDERR_FILENO, "/dev/null", O_RDWR, 0);
  // What a kernel prints goes to stderr, never into the host's stdout: a reader of that would wait for the chip's end, too.
  posix_spawn_file_actions_adddup2(&spawn.actions_, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&spawn.actions_, control.theirs.get(), kChipControlFd);
  posix_spawn_file_actions_adddup2(&spawn.actions_, descriptors.theirs.get(), kChipDescriptorFd);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&spawn.attributes_, &none);
  posix_spawnattr_setsigdefault(&spawn.attributes_, &all);
  posix_spawnattr_setflags(&spawn.attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  const std::string parent = std::to_string(getpid());
  const char *const arguments[] = {"simpler-chip", kChipArgument, parent.c_str(), nullptr};
  SpawnedChip chip;
  const int result = posix_spawn(&chip.pid, path.c_str(), &spawn.actions_, &spawn.attributes_,
                                 const_cast<char *const *>(arguments), environ);
  if (result != 0) {
    if (result == ENOENT && access(path.c_str(), F_OK) == 0)
      throw_error(SIMPLER_NOT_FOUND,
                  "the chip executable {} cannot be started: its loader or interpreter, or /dev/null, does not exist", path);
    if (result == ENOENT) throw_error(SIMPLER_NOT_FOUND, "the chip executable {} does not exist", path);
    throw_system_error(result, fmt::format("starting the chip executable {}", path));
  }
  try {
    UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, chip.pid, 0)));
    // Gone already and reaped by somebody else in this program (ESRCH) is not ours to judge: its pipe tells.
    if (!pidfd.valid() && errno != ESRCH) throw_system_error(errno, "pidfd_open of a chip");
    chip.pidfd = above_standard(std::move(pidfd));
  } catch (...) {
    kill(chip.pid, SIGKILL);
    waitpid(chip.pid, nullptr, 0);
    throw;
  }
  chip.control = std::move(control.ours);
  chip.descriptors = std::move(descriptors.ours);
  return chip;
}

}  // namespace simpler::control
