#include "chip/outbox.h"

namespace simpler::chip {

bool Outbox::try_push(control::RecordType type, std::span<const std::byte> body) {
  bool pushed = false;
  {
    const std::lock_guard lock(mutex_);
    pushed = link_.to_host.push(type, body);
  }
  if (pushed) link_.header().host_bell.ring();
  return pushed;
}

void Outbox::log(simpler_log_level level, std::string_view text) noexcept {
  if (!is_logged(level)) return;
  try {
    const std::vector<std::byte> body =
        encode(control::LogRecord{level, std::string(text.substr(0, control::kLogTextBytesMax))});
    if (try_push(control::RecordType::kLog, body)) return;
  } catch (...) {
  }
  link_.header().dropped_logs.fetch_add(1, std::memory_order_relaxed);
}

bool Outbox::complete(const control::CompletionRecord &record) {
  const std::vector<std::byte> body = encode(record);
  control::LinkHeader &header = link_.header();
  PollBudget budget;
  while (!try_push(control::RecordType::kCompletion, body)) {
    bool stopped = false;
    header.chip_bell.wait(kForever, budget, [&] {
      stopped = header.stop.load(std::memory_order_seq_cst) != 0;
      return stopped || link_.to_host.has_room(body.size());
    });
    if (stopped) return try_push(control::RecordType::kCompletion, body);
  }
  return true;
}

}  // namespace simpler::chip
