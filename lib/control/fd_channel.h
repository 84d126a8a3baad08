// Descriptors travel beside the control pipe, on a socket pair of their own: one message per descriptor, tagged with the
// request that it belongs to. The sender sends it before the frame that refers to it, so the receiver finds it there.
#pragma once

#include <cstdint>

#include "base/unique_fd.h"

namespace simpler::control {

// Never blocks. Throws BUSY when the channel is full (the peer does not read), SYSTEM_ERROR.
void send_descriptor(int channel, uint64_t tag, int fd);

// Waits up to timeout_ms. The descriptor is close-on-exec. Throws PROTOCOL_ERROR (nothing came, another tag, no descriptor).
UniqueFd receive_descriptor(int channel, uint64_t tag, int timeout_ms);

}  // namespace simpler::control
