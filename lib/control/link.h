// The data plane between the host and one chip: two record rings and two doorbells in one segment of shared memory.
//
// to_chip carries RunRecords (the host pushes under a lock of its own, the chip's orchestrator thread pops), to_host
// carries CompletionRecords and LogRecords (the chip pushes under a lock of its own, the host's pump pops). Each ring has one
// producer and one consumer at a time. The segment is made by the host; for a chip in-process it is plain memory of the host.
//
// What a chip writes is untrusted input to the host: `RecordRing::pop` checks cursor and lengths and copies the record out
// before anyone looks at it; decoding checks every count against the bytes that are there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/wait.h"
#include "simpler/types.h"

namespace simpler::control {

// ---- rings ----------------------------------------------------------------------------------------------------------

// The part of a ring that lies in shared memory; the bytes follow elsewhere in the segment.
struct RingCursors {
  // Bytes ever pushed. Written by the producer (release: publishes the record's bytes), read by the consumer (acquire).
  alignas(64) std::atomic<uint64_t> tail{0};
  // Bytes ever popped. Written by the consumer (release: the bytes may be overwritten), read by the producer (acquire).
  alignas(64) std::atomic<uint64_t> head{0};
};

enum class RecordType : uint32_t {
  kRun = 1,
  kCompletion = 2,
  kLog = 3
};

// One end of a ring. Capacity is a power of two and comes from the maker, never from shared memory.
class RecordRing {
 public:
  RecordRing() = default;
  RecordRing(RingCursors *cursors, std::byte *bytes, uint64_t capacity)
      : cursors_(cursors), bytes_(bytes), capacity_(capacity) {}

  // Largest body that fits into an empty ring.
  uint64_t body_bytes_max() const;

  // Producer. False when there is no room now. The body must be at most body_bytes_max().
  bool push(RecordType type, std::span<const std::byte> body);
  // Consumer. False when empty. Copies the next record into `body`. Throws PROTOCOL_ERROR when cursor or length are impossible.
  bool pop(RecordType &type, std::vector<std::byte> &body);
  // Consumer: whether pop would find something. Cheap; for polling.
  bool empty() const {
    return cursors_->tail.load(std::memory_order_seq_cst) == cursors_->head.load(std::memory_order_relaxed);
  }
  // Producer: whether a body of this size would fit now.
  bool has_room(uint64_t body_bytes) const;

 private:
  void copy_in(uint64_t position, const void *from, size_t bytes);
  void copy_out(uint64_t position, void *to, size_t bytes) const;

  RingCursors *cursors_ = nullptr;
  std::byte *bytes_ = nullptr;
  uint64_t capacity_ = 0;
};

// ---- the segment ----------------------------------------------------------------------------------------------------

struct LinkHeader {
  RingCursors to_chip;
  RingCursors to_host;
  alignas(64) Doorbell chip_bell;  // rung by the host: new runs, cancellation, stop
  alignas(64) Doorbell host_bell;  // rung by the chip: completions, logs, room in to_chip
  // Run that the chip works on, 0: none. Written by the chip's orchestrator, read by the host (state and hang reports).
  alignas(64) std::atomic<uint64_t> running_run{0};
  // Records of the log that found no room. Written by the chip.
  std::atomic<uint64_t> dropped_logs{0};
  // Nonzero: the chip shall finish no further runs and leave its loops. Written by the host, or the chip itself at shutdown.
  alignas(64) std::atomic<uint32_t> stop{0};
};

inline constexpr uint64_t kToChipBytes = 1024 * 1024;  // a power of two; holds the largest legal RunRecord
inline constexpr uint64_t kToHostBytes = 128 * 1024;   // a power of two
inline constexpr uint64_t kLinkBytes = (sizeof(LinkHeader) + 4095) / 4096 * 4096 + kToChipBytes + kToHostBytes;

// One process's view of a link segment. Does not own the memory.
class Link {
 public:
  Link() = default;
  // The maker's side: constructs the header in zeroed memory of kLinkBytes.
  static Link create(std::byte *memory);
  // The other side.
  static Link attach(std::byte *memory);

  LinkHeader &header() const { return *header_; }
  RecordRing to_chip;
  RecordRing to_host;

 private:
  LinkHeader *header_ = nullptr;
};

// ---- records --------------------------------------------------------------------------------------------------------

// A tensor of a run's arguments, in GM.
struct TensorRecord {
  uint64_t offset = 0;  // of the first element, in GM
  uint64_t allocation_offset = 0;
  uint64_t allocation_bytes = 0;
  simpler_tag tag = 0;
  simpler_dtype dtype = 0;
  uint32_t rank = 0;
  uint32_t reserved = 0;
  uint64_t shape[SIMPLER_RANK_MAX] = {};
  uint64_t strides[SIMPLER_RANK_MAX] = {};
};

struct RunRecord {  // host -> chip: execute a callable
  uint64_t run = 0;
  uint32_t cid = 0;
  uint32_t generation = 0;
  uint32_t window = 0;      // 0: the chip's
  uint64_t heap_bytes = 0;  // 0: the chip's
  uint64_t seed = 0;        // of the order of execution; 0: none
  std::vector<TensorRecord> tensors;
  std::vector<uint64_t> scalars;
  std::string label;
};

struct RunCounts {
  uint64_t tasks_submitted = 0;
  uint64_t tasks_done = 0;
  uint64_t tasks_failed = 0;
  uint64_t tasks_skipped = 0;
  uint64_t tasks_cancelled = 0;
  uint64_t dependencies = 0;
  uint64_t window_peak = 0;
  uint64_t heap_bytes_peak = 0;
  uint64_t started_ns = 0;  // base/clock.h
  uint64_t ended_ns = 0;
};

struct CompletionRecord {  // chip -> host: a run has ended
  uint64_t run = 0;
  ErrorInfo error;  // code OK when it succeeded
  RunCounts counts;
};

struct LogRecord {  // chip -> host
  simpler_log_level level = SIMPLER_LOG_INFO;
  std::string text;
};

inline constexpr size_t kLogTextBytesMax = 1023;
inline constexpr size_t kErrorTextBytesMax = 4000;  // longer texts are cut when encoded

std::vector<std::byte> encode(const RunRecord &record);
std::vector<std::byte> encode(const CompletionRecord &record);
std::vector<std::byte> encode(const LogRecord &record);
// Throw PROTOCOL_ERROR when the bytes are no such record.
RunRecord decode_run(std::span<const std::byte> body);
CompletionRecord decode_completion(std::span<const std::byte> body);
LogRecord decode_log(std::span<const std::byte> body);

}  // namespace simpler::control
