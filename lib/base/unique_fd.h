// Owner of one file descriptor. Every descriptor of the library is close-on-exec.
#pragma once

#include <array>
#include <unistd.h>
#include <utility>

namespace simpler {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd &operator=(UniqueFd &&other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  UniqueFd(const UniqueFd &) = delete;
  UniqueFd &operator=(const UniqueFd &) = delete;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

// The same, at another number if it is 0, 1 or 2: a host may have closed its standard streams, and what it prints then must not
// go into a descriptor of ours. For every descriptor that stays open. Throws SYSTEM_ERROR.
UniqueFd above_standard(UniqueFd fd);

// For code of others that opens descriptors: while one of these lives, 0, 1 and 2 are all taken.
class StandardFdsTaken {
 public:
  StandardFdsTaken();

 private:
  std::array<UniqueFd, 3> taken_;
};

}  // namespace simpler
