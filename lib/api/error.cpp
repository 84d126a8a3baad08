// simpler_error_*, simpler_status_name, simpler_version.
#include "api/guard.h"

#define SIMPLER_STRING_OF(x) #x
#define SIMPLER_STRING(x) SIMPLER_STRING_OF(x)

namespace simpler::api {

simpler_error *make_error(const ErrorInfo &info) noexcept {
  try {
    return static_cast<simpler_error *>(host::add_handle(host::HandleKind::kError, std::make_shared<ErrorInfo>(info)));
  } catch (...) {
    return nullptr;
  }
}

namespace {

// In a forked child errors are made by nobody and read by nobody.
std::shared_ptr<const ErrorInfo> peek(const simpler_error *error) noexcept {
  return std::static_pointer_cast<const ErrorInfo>(host::peek_handle(host::HandleKind::kError, error));
}

}  // namespace
}  // namespace simpler::api

using simpler::ErrorInfo;
using simpler::api::peek;

extern "C" {

uint32_t simpler_version(void) {
  return (uint32_t{SIMPLER_VERSION_MAJOR} << 16) | (uint32_t{SIMPLER_VERSION_MINOR} << 8) | uint32_t{SIMPLER_VERSION_PATCH};
}

const char *simpler_version_string(void) {
  return SIMPLER_STRING(SIMPLER_VERSION_MAJOR) "." SIMPLER_STRING(SIMPLER_VERSION_MINOR) "." SIMPLER_STRING(
      SIMPLER_VERSION_PATCH);
}

const char *simpler_status_name(simpler_status status) { return simpler::status_name(status); }

simpler_status simpler_error_code(const simpler_error *error) {
  const auto info = peek(error);
  return info != nullptr ? info->code : simpler_status{SIMPLER_OK};
}

// The texts belong to the object, which lives as long as its handle: the pointer outlives the reference taken here.
const char *simpler_error_message(const simpler_error *error) {
  const auto info = peek(error);
  return info != nullptr ? info->message.c_str() : "";
}

int32_t simpler_error_chip(const simpler_error *error) {
  const auto info = peek(error);
  return info != nullptr ? info->chip : SIMPLER_CHIP_ANY;
}

int64_t simpler_error_pid(const simpler_error *error) {
  const auto info = peek(error);
  return info != nullptr ? info->pid : 0;
}

int32_t simpler_error_signal(const simpler_error *error) {
  const auto info = peek(error);
  return info != nullptr ? info->signal : 0;
}

const char *simpler_error_callable(const simpler_error *error) {
  const auto info = peek(error);
  return info != nullptr ? info->callable.c_str() : "";
}

const char *simpler_error_task_label(const simpler_error *error) {
  const auto info = peek(error);
  return info != nullptr ? info->task_label.c_str() : "";
}

uint64_t simpler_error_task(const simpler_error *error) {
  const auto info = peek(error);
  return info != nullptr ? info->task : 0;
}

uint32_t simpler_error_kernel(const simpler_error *error) {
  const auto info = peek(error);
  return info != nullptr ? info->kernel : SIMPLER_NO_KERNEL;
}

int32_t simpler_error_user_code(const simpler_error *error) {
  const auto info = peek(error);
  return info != nullptr ? info->user_code : 0;
}

void simpler_error_free(simpler_error *error) {
  if (peek(error) == nullptr) return;
  simpler::api::guard(nullptr, [&] { simpler::host::remove_handle(simpler::host::HandleKind::kError, error, "error"); });
}

}  // extern "C"
