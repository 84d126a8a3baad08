#include "base/unique_fd.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"

namespace simpler {

UniqueFd above_standard(UniqueFd fd) {
  if (!fd.valid() || fd.get() > STDERR_FILENO) return fd;
  UniqueFd moved(fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!moved.valid()) throw_system_error(errno, "duplicating a descriptor");
  return moved;
}

StandardFdsTaken::StandardFdsTaken() {
  for (UniqueFd &taken : taken_) {
    taken = UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!taken.valid() || taken.get() > STDERR_FILENO) {
      taken.reset();
      return;
    }
  }
}

}  // namespace simpler
