// What the chip says to the host through the link: completions, which wait for room, and log records, which do not.
//
// Threads: any may log; the orchestrator completes. One lock makes them one producer of the ring; only the ring is touched under it.
#pragma once

#include <mutex>
#include <string_view>

#include "control/link.h"

namespace simpler::chip {

class Outbox {
 public:
  Outbox(const control::Link &link, simpler_log_level level) : link_(link), level_(level) {}

  // One record, cut to kLogTextBytesMax; dropped and counted when the ring is full. Never blocks, never throws.
  void log(simpler_log_level level, std::string_view text) noexcept;
  bool is_logged(simpler_log_level level) const { return level <= level_; }
  // Waits, parked, until there is room (the host rings the chip's bell when it has made some). False when the chip is stopped before
  // that; the record is then lost, as its reader is.
  bool complete(const control::CompletionRecord &record);

 private:
  bool try_push(control::RecordType type, std::span<const std::byte> body);

  control::Link link_;
  const simpler_log_level level_;
  std::mutex mutex_;  // makes the pushers one producer; nothing is locked under it
};

}  // namespace simpler::chip
