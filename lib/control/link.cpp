#include "control/link.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace simpler::control {

namespace {

// In front of each body in a ring. `bytes` counts header and body, a multiple of 8.
struct RecordHeader {
  uint32_t bytes;
  uint32_t type;
};
static_assert(sizeof(RecordHeader) == 8);

uint64_t record_bytes(uint64_t body_bytes) { return (sizeof(RecordHeader) + sizeof(uint64_t) + body_bytes + 7) / 8 * 8; }

}  // namespace

// ---- rings ----------------------------------------------------------------------------------------------------------
//
// A record is: header, exact length of the body (8 bytes), body, padding to 8.

uint64_t RecordRing::body_bytes_max() const { return capacity_ - sizeof(RecordHeader) - sizeof(uint64_t); }

void RecordRing::copy_in(uint64_t position, const void *from, size_t bytes) {
  if (bytes == 0) return;  // an empty body has no address
  const uint64_t offset = position & (capacity_ - 1);
  const size_t first = static_cast<size_t>(std::min<uint64_t>(bytes, capacity_ - offset));
  memcpy(bytes_ + offset, from, first);
  memcpy(bytes_, static_cast<const std::byte *>(from) + first, bytes - first);
}

void RecordRing::copy_out(uint64_t position, void *to, size_t bytes) const {
  if (bytes == 0) return;
  const uint64_t offset = position & (capacity_ - 1);
  const size_t first = static_cast<size_t>(std::min<uint64_t>(bytes, capacity_ - offset));
  memcpy(to, bytes_ + offset, first);
  memcpy(static_cast<std::byte *>(to) + first, bytes_, bytes - first);
}

bool RecordRing::has_room(uint64_t body_bytes) const {
  // seq_cst on head: a producer that waits for room announces its sleep before it asks (base/wait.h).
  const uint64_t used = cursors_->tail.load(std::memory_order_relaxed) - cursors_->head.load(std::memory_order_seq_cst);
  return used <= capacity_ && record_bytes(body_bytes) <= capacity_ - used;
}

bool RecordRing::push(RecordType type, std::span<const std::byte> body) {
  SIMPLER_ASSERT(body.size() <= body_bytes_max());
  if (!has_room(body.size())) return false;
  const uint64_t tail = cursors_->tail.load(std::memory_order_relaxed);  // ours
  const uint64_t bytes = record_bytes(body.size());
  const RecordHeader header{static_cast<uint32_t>(bytes), static_cast<uint32_t>(type)};
  const uint64_t length = body.size();
  copy_in(tail, &header, sizeof header);
  copy_in(tail + sizeof header, &length, sizeof length);
  copy_in(tail + sizeof header + sizeof length, body.data(), body.size());
  // seq_cst: publishes the bytes, and is the store that the doorbell's protocol asks for.
  cursors_->tail.store(tail + bytes, std::memory_order_seq_cst);
  return true;
}

bool RecordRing::pop(RecordType &type, std::vector<std::byte> &body) {
  const uint64_t head = cursors_->head.load(std::memory_order_relaxed);  // ours
  // acquire: the record's bytes were written before.
  const uint64_t available = cursors_->tail.load(std::memory_order_acquire) - head;
  if (available == 0) return false;
  if (available > capacity_ || available % 8 != 0 || available < record_bytes(0))
    throw_error(SIMPLER_PROTOCOL_ERROR, "a ring of {} bytes claims to hold {}", capacity_, available);
  RecordHeader header;
  uint64_t length = 0;
  copy_out(head, &header, sizeof header);
  copy_out(head + sizeof header, &length, sizeof length);
  if (header.bytes > available || length > capacity_ || header.bytes != record_bytes(length))
    throw_error(SIMPLER_PROTOCOL_ERROR, "a record of {} bytes with a body of {} in a ring that holds {}", header.bytes,
                length, available);
  type = static_cast<RecordType>(header.type);
  body.resize(static_cast<size_t>(length));
  copy_out(head + sizeof header + sizeof length, body.data(), body.size());
  // seq_cst: releases the bytes, and a producer may sleep for this room.
  cursors_->head.store(head + header.bytes, std::memory_order_seq_cst);
  return true;
}

// ---- the segment ----------------------------------------------------------------------------------------------------

namespace {
constexpr uint64_t kHeaderBytes = (sizeof(LinkHeader) + 4095) / 4096 * 4096;
}

Link Link::create(std::byte *memory) {
  new (memory) LinkHeader();
  return attach(memory);
}

Link Link::attach(std::byte *memory) {
  Link link;
  link.header_ = std::launder(reinterpret_cast<LinkHeader *>(memory));
  link.to_chip = RecordRing(&link.header_->to_chip, memory + kHeaderBytes, kToChipBytes);
  link.to_host = RecordRing(&link.header_->to_host, memory + kHeaderBytes + kToChipBytes, kToHostBytes);
  return link;
}

// ---- records --------------------------------------------------------------------------------------------------------

namespace {

struct RunFixed {
  uint64_t run;
  uint64_t heap_bytes;
  uint64_t seed;
  uint32_t cid;
  uint32_t generation;
  uint32_t window;
  uint32_t tensor_count;
  uint32_t scalar_count;
  uint32_t label_bytes;
};

// Tensors travel with the used entries of shape and strides only.
struct TensorFixed {
  uint64_t offset;
  uint64_t allocation_offset;
  uint64_t allocation_bytes;
  uint32_t tag;
  uint32_t dtype;
  uint32_t rank;
  uint32_t reserved;
};

struct CompletionFixed {
  uint64_t run;
  RunCounts counts;
  uint64_t task;
  int32_t code;
  int32_t user_code;
  uint32_t kernel;
  uint32_t message_bytes;
  uint32_t callable_bytes;
  uint32_t label_bytes;
};

struct LogFixed {
  int32_t level;
  uint32_t text_bytes;
};

class Writer {
 public:
  explicit Writer(size_t bytes) { bytes_.reserve(bytes); }
  template <class T>
  void put(const T &value) {
    append(&value, sizeof value);
  }
  void append(const void *data, size_t bytes) {
    const auto *from = static_cast<const std::byte *>(data);
    bytes_.insert(bytes_.end(), from, from + bytes);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const char *what) : rest_(bytes), what_(what) {}
  template <class T>
  T get() {
    T value;
    copy(&value, sizeof value);
    return value;
  }
  void copy(void *to, size_t bytes) {
    if (bytes > rest_.size()) throw_error(SIMPLER_PROTOCOL_ERROR, "a {} ends {} bytes early", what_, bytes - rest_.size());
    if (bytes != 0) memcpy(to, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
  }
  std::string text(size_t bytes, size_t bytes_max, const char *field) {
    if (bytes > bytes_max) throw_error(SIMPLER_PROTOCOL_ERROR, "a {} has a {} of {} bytes", what_, field, bytes);
    std::string value(bytes, '\0');
    copy(value.data(), bytes);
    return value;
  }
  uint32_t count(uint32_t value, uint32_t value_max, const char *field) const {
    if (value > value_max) throw_error(SIMPLER_PROTOCOL_ERROR, "a {} has {} {}; at most {}", what_, value, field, value_max);
    return value;
  }
  void end() const {
    if (!rest_.empty()) throw_error(SIMPLER_PROTOCOL_ERROR, "a {} has {} bytes too many", what_, rest_.size());
  }

 private:
  std::span<const std::byte> rest_;
  const char *what_;
};

size_t cut(const std::string &text, size_t bytes_max) { return std::min(text.size(), bytes_max); }

constexpr size_t kNameBytesMax = 1023;

}  // namespace

std::vector<std::byte> encode(const RunRecord &record) {
  const size_t label_bytes = cut(record.label, kNameBytesMax);
  Writer writer(sizeof(RunFixed) + record.tensors.size() * (sizeof(TensorFixed) + 32) + record.scalars.size() * 8 +
                label_bytes);
  writer.put(RunFixed{record.run, record.heap_bytes, record.seed, record.cid, record.generation, record.window,
                      static_cast<uint32_t>(record.tensors.size()), static_cast<uint32_t>(record.scalars.size()),
                      static_cast<uint32_t>(label_bytes)});
  for (const TensorRecord &tensor : record.tensors) {
    SIMPLER_ASSERT(tensor.rank <= SIMPLER_RANK_MAX);
    writer.put(TensorFixed{tensor.offset, tensor.allocation_offset, tensor.allocation_bytes, tensor.tag, tensor.dtype,
                           tensor.rank, 0});
    writer.append(tensor.shape, tensor.rank * sizeof(uint64_t));
    writer.append(tensor.strides, tensor.rank * sizeof(uint64_t));
  }
  writer.append(record.scalars.data(), record.scalars.size() * sizeof(uint64_t));
  writer.append(record.label.data(), label_bytes);
  return writer.take();
}

RunRecord decode_run(std::span<const std::byte> body) {
  Reader reader(body, "run record");
  const auto fixed = reader.get<RunFixed>();
  RunRecord record;
  record.run = fixed.run;
  record.cid = fixed.cid;
  record.generation = fixed.generation;
  record.window = fixed.window;
  record.heap_bytes = fixed.heap_bytes;
  record.seed = fixed.seed;
  record.tensors.resize(reader.count(fixed.tensor_count, SIMPLER_TENSORS_MAX, "tensors"));
  for (TensorRecord &tensor : record.tensors) {
    const auto t = reader.get<TensorFixed>();
    tensor.offset = t.offset;
    tensor.allocation_offset = t.allocation_offset;
    tensor.allocation_bytes = t.allocation_bytes;
    tensor.tag = t.tag;
    tensor.dtype = t.dtype;
    tensor.rank = reader.count(t.rank, SIMPLER_RANK_MAX, "dimensions");
    reader.copy(tensor.shape, tensor.rank * sizeof(uint64_t));
    reader.copy(tensor.strides, tensor.rank * sizeof(uint64_t));
  }
  record.scalars.resize(reader.count(fixed.scalar_count, SIMPLER_SCALARS_MAX, "scalars"));
  reader.copy(record.scalars.data(), record.scalars.size() * sizeof(uint64_t));
  record.label = reader.text(fixed.label_bytes, kNameBytesMax, "label");
  reader.end();
  return record;
}

std::vector<std::byte> encode(const CompletionRecord &record) {
  const size_t message_bytes = cut(record.error.message, kErrorTextBytesMax);
  const size_t callable_bytes = cut(record.error.callable, kNameBytesMax);
  const size_t label_bytes = cut(record.error.task_label, kNameBytesMax);
  Writer writer(sizeof(CompletionFixed) + message_bytes + callable_bytes + label_bytes);
  writer.put(CompletionFixed{record.run, record.counts, record.error.task, record.error.code, record.error.user_code,
                             record.error.kernel, static_cast<uint32_t>(message_bytes),
                             static_cast<uint32_t>(callable_bytes), static_cast<uint32_t>(label_bytes)});
  writer.append(record.error.message.data(), message_bytes);
  writer.append(record.error.callable.data(), callable_bytes);
  writer.append(record.error.task_label.data(), label_bytes);
  return writer.take();
}

CompletionRecord decode_completion(std::span<const std::byte> body) {
  Reader reader(body, "completion record");
  const auto fixed = reader.get<CompletionFixed>();
  CompletionRecord record;
  record.run = fixed.run;
  record.counts = fixed.counts;
  record.error.task = fixed.task;
  record.error.code = fixed.code;
  record.error.user_code = fixed.user_code;
  record.error.kernel = fixed.kernel;
  record.error.message = reader.text(fixed.message_bytes, kErrorTextBytesMax, "message");
  record.error.callable = reader.text(fixed.callable_bytes, kNameBytesMax, "callable name");
  record.error.task_label = reader.text(fixed.label_bytes, kNameBytesMax, "label");
  reader.end();
  return record;
}

std::vector<std::byte> encode(const LogRecord &record) {
  const size_t text_bytes = cut(record.text, kLogTextBytesMax);
  Writer writer(sizeof(LogFixed) + text_bytes);
  writer.put(LogFixed{record.level, static_cast<uint32_t>(text_bytes)});
  writer.append(record.text.data(), text_bytes);
  return writer.take();
}

LogRecord decode_log(std::span<const std::byte> body) {
  Reader reader(body, "log record");
  const auto fixed = reader.get<LogFixed>();
  LogRecord record;
  record.level = fixed.level;
  record.text = reader.text(fixed.text_bytes, kLogTextBytesMax, "text");
  reader.end();
  return record;
}

}  // namespace simpler::control
