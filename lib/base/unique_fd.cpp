#include "base/unique_fd.h"

#include <cerrno>
#include <fcntl.h>

#include "base/error.h"

namespace simpler {

UniqueFd above_standard(UniqueFd fd) {
  if (!fd.valid() || fd.get() > STDERR_FILENO) return fd;
  UniqueFd moved(fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!moved.valid()) throw_system_error(errno, "duplicating a descriptor");
  return moved;
}

}  // namespace simpler
