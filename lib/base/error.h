// The one error type of the library: an exception that carries a status, a text and where it happened.
//
// Inside the library errors are thrown as `Error`; across threads, processes and the C interface they travel as the plain
// value `ErrorInfo`. No exception may pass through libuv, a thread's entry function or the C interface: each of those
// catches with `capture_current_exception`.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "simpler/types.h"

namespace simpler {

inline constexpr int32_t kNoChip = -1;

struct ErrorInfo {
  simpler_status code = SIMPLER_OK;
  int32_t chip = kNoChip;
  int64_t pid = 0;        // of a chip process that was lost
  int32_t signal = 0;     // that ended it
  int32_t user_code = 0;  // given by a kernel or an orchestration
  uint32_t kernel = SIMPLER_NO_KERNEL;
  uint64_t task = 0;
  std::string message;
  std::string callable;
  std::string task_label;

  bool ok() const { return code == SIMPLER_OK; }
};

class Error : public std::exception {
 public:
  explicit Error(ErrorInfo info) : info_(std::move(info)) {}
  Error(simpler_status code, std::string message) {
    info_.code = code;
    info_.message = std::move(message);
  }
  const char *what() const noexcept override { return info_.message.c_str(); }
  const ErrorInfo &info() const { return info_; }
  ErrorInfo &info() { return info_; }

 private:
  ErrorInfo info_;
};

// throw_error(SIMPLER_BUSY, "buffer of {} bytes is in use by {} runs", bytes, runs)
template <class... Args>
[[noreturn]] void throw_error(simpler_status code, fmt::format_string<Args...> format, Args &&...args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// SYSTEM_ERROR (OUT_OF_MEMORY for ENOMEM) with the call's name and the text of `error_number`.
[[noreturn]] void throw_system_error(int error_number, std::string_view what);

// Turns the exception being handled into a value; never throws. Foreign exceptions become INTERNAL, bad_alloc OUT_OF_MEMORY.
ErrorInfo capture_current_exception() noexcept;

// Name of a status without its prefix; "UNKNOWN" for a number without meaning.
const char *status_name(simpler_status status) noexcept;

// An invariant that does not hold: throws INTERNAL with the place. Stays on in release builds.
[[noreturn]] void invariant_failed(const char *expression, const char *file, int line);
#define SIMPLER_ASSERT(expression) \
  (static_cast<bool>(expression) ? void(0) : ::simpler::invariant_failed(#expression, __FILE__, __LINE__))

}  // namespace simpler
