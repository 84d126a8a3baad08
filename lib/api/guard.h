// What every function of the C interface does around its work: catch everything, turn errors into objects, check structs.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "host/handle_table.h"
#include "host/log_sink.h"
#include "simpler.h"

namespace simpler::api {

// A new error object for `info`, or null when there is no memory for it.
simpler_error *make_error(const ErrorInfo &info) noexcept;

// Runs `function`; its errors become the status and, if wanted, the error object.
template <class Function>
simpler_status guard(simpler_error **err, Function function) noexcept {
  if (err != nullptr) *err = nullptr;
  ErrorInfo info;
  try {
    function();
    return SIMPLER_OK;
  } catch (...) {
    info = capture_current_exception();
  }
  if (err != nullptr) *err = make_error(info);
  return info.code;
}

// For calls that could wait for the callback that they are made from.
inline void refuse_in_callback(const char *function) {
  if (host::LogSink::in_callback())
    throw_error(SIMPLER_BUSY, "{} was called from a log callback, which it could wait for; call it from another thread",
                function);
}

template <class T>
T *require(T *pointer, const char *argument) {
  if (pointer == nullptr) throw_error(SIMPLER_INVALID_ARGUMENT, "{} is NULL", argument);
  return pointer;
}

// A struct of the caller as this library knows it: fields that an older caller does not have keep the values of `defaults`;
// what a newer caller has beyond must be zero.
template <class T>
T read_struct(const T *given, const T &defaults, const char *name) {
  constexpr size_t kStructBytesMax = 64 * 1024;  // beyond that, struct_size is garbage
  T value = defaults;
  const size_t size = given->struct_size;
  if (size < sizeof(size_t) || size > kStructBytesMax)
    throw_error(SIMPLER_INVALID_ARGUMENT,
                "{}.struct_size is {}; set the struct up with its _INIT macro (this library: {} bytes)", name, size,
                sizeof(T));
  memcpy(&value, given, size < sizeof(T) ? size : sizeof(T));
  const char *bytes = reinterpret_cast<const char *>(given);
  for (size_t i = sizeof(T); i < size; i++) {
    if (bytes[i] != 0)
      throw_error(SIMPLER_INVALID_ARGUMENT,
                  "{} has {} bytes and sets something beyond the {} bytes that this library knows; use a newer library",
                  name, size, sizeof(T));
  }
  value.struct_size = sizeof(T);
  return value;
}

// Fills a struct of the caller as far as it reaches; its struct_size stays.
template <class T>
void write_struct(T *out, const T &value, const char *name) {
  const size_t size = out->struct_size;
  if (size < sizeof(size_t) || size > 64 * 1024)
    throw_error(SIMPLER_INVALID_ARGUMENT,
                "{}.struct_size is {}; set the struct up with its _INIT macro (this library: {} bytes)", name, size,
                sizeof(T));
  memcpy(out, &value, size < sizeof(T) ? size : sizeof(T));
  out->struct_size = size;
}

}  // namespace simpler::api
