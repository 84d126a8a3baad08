#include "base/shared_memory.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <utility>

#include "base/error.h"

namespace simpler {

namespace {

constexpr uint64_t kPageBytes = 4096;
// From this size on, giving pages back is cheaper than writing zeros into them.
constexpr uint64_t kPunchBytesMin = 256 * 1024;

std::byte *map_shared(const char *what, int fd, uint64_t bytes) {
  void *data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (data == MAP_FAILED) throw_system_error(errno, fmt::format("mapping {} bytes of {}", bytes, what));
  return static_cast<std::byte *>(data);
}

}  // namespace

SharedMemory::SharedMemory(SharedMemory &&other) noexcept
    : fd_(std::move(other.fd_)), data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

SharedMemory &SharedMemory::operator=(SharedMemory &&other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
}

SharedMemory SharedMemory::create(const char *what, uint64_t bytes) {
  SharedMemory memory;
  memory.fd_ = UniqueFd(memfd_create(what, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.fd_.valid()) throw_system_error(errno, fmt::format("memfd_create for {}", what));
  memory.fd_ = above_standard(std::move(memory.fd_));
  if (ftruncate(memory.fd_.get(), static_cast<off_t>(bytes)) != 0)
    throw_system_error(errno, fmt::format("sizing {} to {} bytes", what, bytes));
  // A peer must not be able to shrink it under our mapping: that would turn our loads into SIGBUS.
  if (fcntl(memory.fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw_system_error(errno, fmt::format("sealing {}", what));
  memory.data_ = map_shared(what, memory.fd_.get(), bytes);
  memory.bytes_ = bytes;
  return memory;
}

SharedMemory SharedMemory::map(const char *what, UniqueFd fd, uint64_t bytes) {
  struct stat status;
  if (fstat(fd.get(), &status) != 0) throw_system_error(errno, fmt::format("fstat of {}", what));
  if (status.st_size < 0 || static_cast<uint64_t>(status.st_size) < bytes)
    throw_error(SIMPLER_PROTOCOL_ERROR, "{} has {} bytes where {} were announced", what, status.st_size, bytes);
  SharedMemory memory;
  memory.data_ = map_shared(what, fd.get(), bytes);
  memory.fd_ = std::move(fd);
  memory.bytes_ = bytes;
  return memory;
}

void SharedMemory::zero(uint64_t offset, uint64_t bytes) const {
  SIMPLER_ASSERT(offset <= bytes_ && bytes <= bytes_ - offset);
  if (bytes >= kPunchBytesMin) {
    const uint64_t first = (offset + kPageBytes - 1) / kPageBytes * kPageBytes;
    const uint64_t last = (offset + bytes) / kPageBytes * kPageBytes;
    if (fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
                  static_cast<off_t>(last - first)) == 0) {
      memset(data_ + offset, 0, static_cast<size_t>(first - offset));
      memset(data_ + last, 0, static_cast<size_t>(offset + bytes - last));
      return;
    }
  }
  memset(data_ + offset, 0, static_cast<size_t>(bytes));
}

UniqueFd make_sealed_memfd(const char *what, std::span<const std::span<const std::byte>> parts) {
  UniqueFd fd(memfd_create(what, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) throw_system_error(errno, fmt::format("memfd_create for {}", what));
  fd = above_standard(std::move(fd));
  for (std::span<const std::byte> part : parts) {
    while (!part.empty()) {
      const ssize_t written = write(fd.get(), part.data(), part.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) throw_system_error(written < 0 ? errno : ENOSPC, fmt::format("writing {}", what));
      part = part.subspan(static_cast<size_t>(written));
    }
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    throw_system_error(errno, fmt::format("sealing {}", what));
  return fd;
}

}  // namespace simpler
