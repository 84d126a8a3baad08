#include "control/fd_channel.h"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

#include "base/error.h"

namespace simpler::control {

namespace {

union ControlBuffer {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

}  // namespace

void send_descriptor(int channel, uint64_t tag, int fd) {
  iovec data{&tag, sizeof tag};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &fd, sizeof fd);
  for (;;) {
    if (sendmsg(channel, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return;
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == ETOOMANYREFS)
      throw_error(SIMPLER_BUSY, "the chip does not take descriptors: its channel is full; try again");
    throw_system_error(errno, "sending a descriptor to a chip");
  }
}

UniqueFd receive_descriptor(int channel, uint64_t tag, int timeout_ms) {
  pollfd ready{channel, POLLIN, 0};
  int count = 0;
  do {
    count = poll(&ready, 1, timeout_ms);
  } while (count < 0 && errno == EINTR);
  if (count == 0) throw_error(SIMPLER_PROTOCOL_ERROR, "no descriptor came for request {} within {} ms", tag, timeout_ms);
  if (count < 0) throw_system_error(errno, "waiting for a descriptor");

  uint64_t received_tag = 0;
  iovec data{&received_tag, sizeof received_tag};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = CMSG_LEN(sizeof(int));  // room for one: the system closes any further ones
  ssize_t bytes = 0;
  do {
    bytes = recvmsg(channel, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0) throw_system_error(errno, "receiving a descriptor");
  UniqueFd fd;
  for (cmsghdr *header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    int received = -1;
    memcpy(&received, CMSG_DATA(header), sizeof received);
    fd = UniqueFd(received);
  }
  if (bytes != sizeof received_tag || received_tag != tag || !fd.valid())
    throw_error(SIMPLER_PROTOCOL_ERROR,
                "a descriptor for request {} was expected; {} bytes with tag {} and {} descriptor came", tag, bytes,
                received_tag, fd.valid() ? "a" : "no");
  return fd;
}

}  // namespace simpler::control
