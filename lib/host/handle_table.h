// The live handles of this process. What the C interface gives out as a pointer is a number: kind, slot and generation. It is
// looked up here and never dereferenced, so a handle that was ended, forged, of another kind, or inherited by fork() is an
// error and nothing else.
//
// The table lives until the process ends (handles may be used by threads that run during exit). Any thread may call anything.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"

namespace simpler::host {

enum class HandleKind : uint8_t {
  kWorker = 1,
  kCallable = 2,
  kBuffer = 3,
  kRun = 4,
  kError = 5
};
const char *handle_kind_name(HandleKind kind);

// Adds an object; the handle is never null and never one that was given out before.
void *add_handle(HandleKind kind, std::shared_ptr<void> object);

// The object of a live handle, kept alive for the caller. Throws INVALID_ARGUMENT (null, naming `argument`), WRONG_PROCESS,
// CLOSED (a worker that once was), INVALID_HANDLE.
std::shared_ptr<void> find_handle(HandleKind kind, const void *handle, const char *argument);
template <class T>
std::shared_ptr<T> find(HandleKind kind, const void *handle, const char *argument) {
  return std::static_pointer_cast<T>(find_handle(kind, handle, argument));
}
// The same without an error: null if it is no live handle of that kind.
std::shared_ptr<void> peek_handle(HandleKind kind, const void *handle) noexcept;

// Ends a handle and returns its object; throws as find_handle does. Of two racing calls one succeeds.
std::shared_ptr<void> remove_handle(HandleKind kind, const void *handle, const char *argument);

// Throws WRONG_PROCESS in a child made by fork().
void check_process();
bool in_forked_child() noexcept;

}  // namespace simpler::host
