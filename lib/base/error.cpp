#include "base/error.h"

#include <cerrno>
#include <cstring>
#include <new>

namespace simpler {

void throw_system_error(int error_number, std::string_view what) {
  const simpler_status code = error_number == ENOMEM ? SIMPLER_OUT_OF_MEMORY : SIMPLER_SYSTEM_ERROR;
  char buffer[128] = {0};
  // GNU strerror_r: thread-safe, returns the text to use.
  const char *text = strerror_r(error_number, buffer, sizeof buffer);
  throw Error(code, fmt::format("{} failed: {} (errno {})", what, text, error_number));
}

ErrorInfo capture_current_exception() noexcept {
  ErrorInfo info;
  try {
    throw;
  } catch (const Error &error) {
    try {
      return error.info();
    } catch (...) {
      info.code = error.info().code;
    }
  } catch (const std::bad_alloc &) {
    info.code = SIMPLER_OUT_OF_MEMORY;
  } catch (const std::exception &error) {
    info.code = SIMPLER_INTERNAL;
    try {
      info.message = error.what();
    } catch (...) {
      info.message.clear();
    }
  } catch (...) {
    info.code = SIMPLER_INTERNAL;
  }
  return info;
}

const char *status_name(simpler_status status) noexcept {
  switch (status) {
#define SIMPLER_NAME(name) \
  case SIMPLER_##name:     \
    return #name;
    SIMPLER_NAME(OK)
    SIMPLER_NAME(CANCELLED)
    SIMPLER_NAME(INVALID_ARGUMENT)
    SIMPLER_NAME(TIMEOUT)
    SIMPLER_NAME(NOT_FOUND)
    SIMPLER_NAME(ALREADY_EXISTS)
    SIMPLER_NAME(NOT_SUPPORTED)
    SIMPLER_NAME(INTERNAL)
    SIMPLER_NAME(INVALID_HANDLE)
    SIMPLER_NAME(CLOSED)
    SIMPLER_NAME(BUSY)
    SIMPLER_NAME(WRONG_PROCESS)
    SIMPLER_NAME(CAPACITY_WINDOW)
    SIMPLER_NAME(CAPACITY_HEAP)
    SIMPLER_NAME(CAPACITY_CALLABLES)
    SIMPLER_NAME(CAPACITY_ARGUMENTS)
    SIMPLER_NAME(CAPACITY_CHIPS)
    SIMPLER_NAME(CAPACITY_MEMORY)
    SIMPLER_NAME(DEADLOCK_WINDOW)
    SIMPLER_NAME(DEADLOCK_HEAP)
    SIMPLER_NAME(UNSATISFIABLE)
    SIMPLER_NAME(LOAD_IMAGE)
    SIMPLER_NAME(LOAD_SYMBOL)
    SIMPLER_NAME(LOAD_VERSION)
    SIMPLER_NAME(KERNEL_FAILED)
    SIMPLER_NAME(KERNEL_CRASHED)
    SIMPLER_NAME(ORCHESTRATION_FAILED)
    SIMPLER_NAME(CHIP_LOST)
    SIMPLER_NAME(STALL_LIMIT)
    SIMPLER_NAME(RUN_LIMIT)
    SIMPLER_NAME(START_LIMIT)
    SIMPLER_NAME(PROTOCOL_ERROR)
    SIMPLER_NAME(OUT_OF_MEMORY)
    SIMPLER_NAME(SYSTEM_ERROR)
#undef SIMPLER_NAME
    default:
      return "UNKNOWN";
  }
}

void invariant_failed(const char *expression, const char *file, int line) {
  throw Error(SIMPLER_INTERNAL, fmt::format("broken invariant: {} ({}:{})", expression, file, line));
}

}  // namespace simpler
