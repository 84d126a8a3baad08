#include "host/log_sink.h"

#include <algorithm>
#include <unistd.h>

#include "base/error.h"

namespace simpler::host {

namespace {

// Records that wait while the callback is slow; further ones are dropped.
constexpr size_t kRecordsMax = 65536;

thread_local bool callback_running = false;

const char *level_name(simpler_log_level level) {
  switch (level) {
    case SIMPLER_LOG_ERROR:
      return "error";
    case SIMPLER_LOG_WARNING:
      return "warning";
    case SIMPLER_LOG_INFO:
      return "info";
    default:
      return "debug";
  }
}

}  // namespace

LogSink::LogSink(simpler_log_level level, simpler_log_fn function, void *user_data, simpler_free_fn free_user_data)
    : level_(level), function_(function), user_data_(user_data), free_user_data_(free_user_data) {}

LogSink::~LogSink() {
  if (free_user_data_ != nullptr) free_user_data_(user_data_);
}

bool LogSink::in_callback() noexcept { return callback_running; }

void LogSink::deliver(const Record &record) const {
  if (function_ != nullptr) {
    callback_running = true;
    function_(record.level, record.text.c_str(), user_data_);
    callback_running = false;
    return;
  }
  // One write per record, so that records of several processes do not mix. A stderr that nobody reads costs the record.
  const std::string line = fmt::format("simpler: {}: {}\n", level_name(record.level), record.text);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void LogSink::write(simpler_log_level level, int32_t chip, std::string text) noexcept {
  if (level == SIMPLER_LOG_OFF || level > level_) return;
  try {
    std::replace(text.begin(), text.end(), '\n', ' ');
    if (chip != kNoChip) text = fmt::format("chip {}: {}", chip, text);
    std::unique_lock lock(mutex_);
    if (records_.size() >= kRecordsMax) return;
    records_.push_back({level, std::move(text)});
    if (delivering_) return;
    delivering_ = true;
    while (!records_.empty()) {
      const Record record = std::move(records_.front());
      records_.pop_front();
      lock.unlock();
      deliver(record);
      lock.lock();
    }
    delivering_ = false;
  } catch (...) {
    // A record that cannot be kept is lost; there is nobody to tell.
  }
}

}  // namespace simpler::host
