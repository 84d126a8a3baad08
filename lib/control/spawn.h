// Starts a simpler-chip process: posix_spawn, descriptors at fixed numbers, a pidfd. Called on the control loop thread only: a
// child is tied to the thread that forked it (PR_SET_PDEATHSIG).
#pragma once

#include <string>
#include <sys/types.h>

#include "base/unique_fd.h"

namespace simpler::control {

// Where a chip process finds its ends.
inline constexpr int kChipControlFd = 3;
inline constexpr int kChipDescriptorFd = 4;
// What it is started with, to tell a start by the library from one by hand.
inline constexpr const char *kChipArgument = "--started-by-libsimpler";

struct SpawnedChip {
  pid_t pid = 0;
  UniqueFd pidfd;
  UniqueFd control;      // our end of the control pipe, non-blocking
  UniqueFd descriptors;  // our end of the descriptor channel
};

// Throws SYSTEM_ERROR or NOT_FOUND with the path and the reason. Nothing is left behind then.
SpawnedChip spawn_chip(const std::string &path);

}  // namespace simpler::control
