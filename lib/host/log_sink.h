// Where a worker's log records go: the host's callback, or lines on stderr.
//
// Any thread may call write(). Records reach the callback one at a time and in order; no lock is held meanwhile: whoever finds
// nobody delivering becomes the one who delivers, others only append.
#pragma once

#include <deque>
#include <mutex>
#include <string>

#include "simpler.h"

namespace simpler::host {

class LogSink {
 public:
  LogSink(simpler_log_level level, simpler_log_fn function, void *user_data, simpler_free_fn free_user_data);
  ~LogSink();  // calls free_user_data
  LogSink(const LogSink &) = delete;
  LogSink &operator=(const LogSink &) = delete;

  // `chip` -1: the library itself. Never throws.
  void write(simpler_log_level level, int32_t chip, std::string text) noexcept;

  // Whether this thread is inside a log callback: calls that could wait for its end are refused then.
  static bool in_callback() noexcept;

 private:
  struct Record {
    simpler_log_level level;
    std::string text;
  };
  void deliver(const Record &record) const;

  const simpler_log_level level_;
  const simpler_log_fn function_;
  void *const user_data_;
  const simpler_free_fn free_user_data_;
  // Guards the two below. Nothing else is locked under it and no callback is called.
  std::mutex mutex_;
  std::deque<Record> records_;
  bool delivering_ = false;
};

}  // namespace simpler::host
