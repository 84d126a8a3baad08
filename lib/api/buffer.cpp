// simpler_buffer_*.
#include "api/guard.h"
#include "host/worker.h"

using namespace simpler;
using namespace simpler::api;
using host::BufferState;
using host::HandleKind;
using host::Worker;

namespace {

std::shared_ptr<BufferState> peek(simpler_buffer *buffer) {
  return std::static_pointer_cast<BufferState>(host::peek_handle(HandleKind::kBuffer, buffer));
}

}  // namespace

extern "C" {

simpler_status simpler_buffer_create(simpler_worker *worker, uint64_t bytes, simpler_buffer **buffer, simpler_error **err) {
  if (buffer != nullptr) *buffer = nullptr;
  return guard(err, [&] {
    refuse_in_callback("simpler_buffer_create");
    const auto object = host::find<Worker>(HandleKind::kWorker, worker, "worker");
    require(buffer, "buffer");
    std::shared_ptr<BufferState> state = object->create_buffer(bytes);
    *buffer = static_cast<simpler_buffer *>(host::add_handle(HandleKind::kBuffer, std::move(state)));
    object->adopt_handle(HandleKind::kBuffer, *buffer);
  });
}

simpler_status simpler_buffer_release(simpler_buffer *buffer, simpler_error **err) {
  return guard(err, [&] {
    if (buffer == nullptr) return;
    refuse_in_callback("simpler_buffer_release");
    const auto state = host::find<BufferState>(HandleKind::kBuffer, buffer, "buffer");
    const std::shared_ptr<Worker> worker = state->worker.lock();
    if (worker == nullptr) throw_error(SIMPLER_CLOSED, "buffer: its worker is closed");
    worker->release_buffer(*state);  // refuses while runs use it; the handle then stays
    worker->forget_handle(buffer);
    try {
      host::remove_handle(HandleKind::kBuffer, buffer, "buffer");
    } catch (const Error &) {
      // The worker was closed meanwhile and has ended it.
    }
  });
}

void *simpler_buffer_data(simpler_buffer *buffer) {
  const auto state = peek(buffer);
  return state != nullptr ? state->data : nullptr;
}

uint64_t simpler_buffer_bytes(simpler_buffer *buffer) {
  const auto state = peek(buffer);
  return state != nullptr ? state->bytes : 0;
}

}  // extern "C"
