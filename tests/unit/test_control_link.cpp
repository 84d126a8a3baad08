// lib/control/link: rings and record codecs, with honest and hostile other sides.
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/error.h"
#include "control/link.h"
#include "support.h"  // after all others: it defines fail as a macro

using namespace simpler;
using namespace simpler::control;

namespace {

struct Ring {
  RingCursors cursors;
  std::vector<std::byte> bytes;
  RecordRing ring;
  explicit Ring(uint64_t capacity) : bytes(capacity), ring(&cursors, bytes.data(), capacity) {}
};

std::vector<std::byte> body_of(size_t bytes, unsigned seed) {
  std::vector<std::byte> body(bytes);
  for (size_t i = 0; i < bytes; i++) body[i] = static_cast<std::byte>(seed * 31 + i);
  return body;
}

template <class Function>
simpler_status code_of(Function function) {
  try {
    function();
  } catch (const Error &error) {
    return error.info().code;
  }
  return SIMPLER_OK;
}

void records_come_out_as_they_went_in_over_many_laps(void **) {
  Ring r(1024);
  RecordType type{};
  std::vector<std::byte> body;
  for (unsigned i = 0; i < 5000; i++) {
    const std::vector<std::byte> sent = body_of(i % 200, i);
    assert_true(r.ring.push(RecordType::kLog, sent));
    assert_false(r.ring.empty());
    assert_true(r.ring.pop(type, body));
    assert_true(type == RecordType::kLog && body == sent);
    assert_true(r.ring.empty());
  }
  assert_false(r.ring.pop(type, body));
}

void a_full_ring_refuses_and_takes_again_after_a_pop(void **) {
  Ring r(256);
  const std::vector<std::byte> largest = body_of(r.ring.body_bytes_max(), 1);
  assert_true(r.ring.push(RecordType::kRun, largest));
  assert_false(r.ring.has_room(0));
  assert_false(r.ring.push(RecordType::kRun, {}));
  RecordType type{};
  std::vector<std::byte> body;
  assert_true(r.ring.pop(type, body));
  assert_true(body == largest);
  assert_true(r.ring.push(RecordType::kRun, largest));
  assert_int_equal(code_of([&] { r.ring.push(RecordType::kRun, body_of(r.ring.body_bytes_max() + 1, 1)); }),
                   SIMPLER_INTERNAL);
}

void hostile_cursors_and_lengths_are_refused(void **) {
  const uint64_t tails[] = {1, 8, 257, 264, UINT64_MAX, uint64_t{1} << 63};
  RecordType type{};
  std::vector<std::byte> body;
  for (const uint64_t tail : tails) {
    Ring r(256);
    r.cursors.tail.store(tail);
    assert_int_equal(code_of([&] { r.ring.pop(type, body); }), SIMPLER_PROTOCOL_ERROR);
  }
  const struct {
    uint32_t bytes;
    uint64_t length;
  } headers[] = {{0, 0}, {8, 0}, {32, 17}, {1u << 31, 8}, {UINT32_MAX, 8}, {24, UINT64_MAX}, {24, 9}, {16, 1}, {40, 24}};
  for (const auto &header : headers) {
    Ring r(256);
    const uint32_t words[] = {header.bytes, 1};
    memcpy(r.bytes.data(), words, 8);
    memcpy(r.bytes.data() + 8, &header.length, 8);
    r.cursors.tail.store(32);
    assert_int_equal(code_of([&] { r.ring.pop(type, body); }), SIMPLER_PROTOCOL_ERROR);
  }
}

void one_producer_and_one_consumer_lose_nothing(void **) {
  Ring r(512);
  constexpr unsigned kRecords = 20'000;
  Doorbell bell;
  std::thread producer([&] {
    for (unsigned i = 0; i < kRecords; i++) {
      const std::vector<std::byte> body = body_of(i % 60, i);
      bell.wait(kForever, [&] { return r.ring.has_room(body.size()); });
      r.ring.push(RecordType::kLog, body);
      bell.ring();
    }
  });
  unsigned wrong = 0;
  RecordType type{};
  std::vector<std::byte> body;
  for (unsigned i = 0; i < kRecords; i++) {
    bell.wait(kForever, [&] { return !r.ring.empty(); });
    r.ring.pop(type, body);
    bell.ring();
    if (body != body_of(i % 60, i)) wrong++;
  }
  producer.join();
  assert_int_equal(wrong, 0);
}

// ---- records --------------------------------------------------------------------------------------------------------

RunRecord full_run(size_t tensors, size_t scalars) {
  RunRecord record;
  record.run = 77;
  record.cid = 5;
  record.generation = 9;
  record.window = 64;
  record.heap_bytes = 1 << 20;
  record.label = "a label";
  for (size_t i = 0; i < tensors; i++) {
    TensorRecord tensor;
    tensor.offset = i * 64;
    tensor.allocation_offset = i * 32;
    tensor.allocation_bytes = 4096;
    tensor.tag = SIMPLER_TAG_INOUT;
    tensor.dtype = SIMPLER_DTYPE_FLOAT32;
    tensor.rank = static_cast<uint32_t>(i % SIMPLER_RANK_MAX + 1);
    for (uint32_t axis = 0; axis < tensor.rank; axis++) {
      tensor.shape[axis] = axis + i;
      tensor.strides[axis] = axis * 3;
    }
    record.tensors.push_back(tensor);
  }
  for (size_t i = 0; i < scalars; i++) record.scalars.push_back(i * i);
  return record;
}

void the_largest_run_record_fits_and_comes_back(void **) {
  const RunRecord record = full_run(SIMPLER_TENSORS_MAX, SIMPLER_SCALARS_MAX);
  const std::vector<std::byte> bytes = encode(record);
  assert_true(bytes.size() <= kToChipBytes - 16);
  const RunRecord back = decode_run(bytes);
  assert_int_equal(back.run, record.run);
  assert_int_equal(back.generation, record.generation);
  assert_string_equal(back.label.c_str(), "a label");
  assert_int_equal(back.tensors.size(), SIMPLER_TENSORS_MAX);
  assert_memory_equal(&back.tensors[7], &record.tensors[7], sizeof(TensorRecord));
  assert_true(back.scalars == record.scalars);
}

void one_tensor_or_scalar_too_many_is_refused(void **) {
  assert_int_equal(code_of([] { decode_run(encode(full_run(SIMPLER_TENSORS_MAX + 1, 0))); }), SIMPLER_PROTOCOL_ERROR);
  assert_int_equal(code_of([] { decode_run(encode(full_run(0, SIMPLER_SCALARS_MAX + 1))); }), SIMPLER_PROTOCOL_ERROR);
}

void completions_and_logs_come_back_and_long_texts_are_cut(void **) {
  CompletionRecord record;
  record.run = 3;
  record.error.code = SIMPLER_KERNEL_FAILED;
  record.error.user_code = -5;
  record.error.kernel = 8;
  record.error.task = 123;
  record.error.message = std::string(10'000, 'x');
  record.error.callable = "callable";
  record.error.task_label = "label";
  record.counts.tasks_done = 11;
  record.counts.ended_ns = 99;
  const CompletionRecord back = decode_completion(encode(record));
  assert_int_equal(back.error.code, SIMPLER_KERNEL_FAILED);
  assert_int_equal(back.error.user_code, -5);
  assert_int_equal(back.error.message.size(), kErrorTextBytesMax);
  assert_string_equal(back.error.callable.c_str(), "callable");
  assert_string_equal(back.error.task_label.c_str(), "label");
  assert_int_equal(back.counts.tasks_done, 11);
  assert_int_equal(back.counts.ended_ns, 99);
  const LogRecord log = decode_log(encode(LogRecord{SIMPLER_LOG_DEBUG, "text"}));
  assert_int_equal(log.level, SIMPLER_LOG_DEBUG);
  assert_string_equal(log.text.c_str(), "text");
}

// Whatever the bytes are: an error or a record, never anything else (the sanitizer builds watch).
void truncated_and_mutated_records_never_do_harm(void **) {
  const std::vector<std::byte> run = encode(full_run(3, 4));
  CompletionRecord completion;
  completion.error.message = "message";
  const std::vector<std::byte> done = encode(completion);
  const std::vector<std::byte> log = encode(LogRecord{SIMPLER_LOG_INFO, "text"});
  for (size_t bytes = 0; bytes < run.size(); bytes++)
    assert_int_equal(code_of([&] { decode_run(std::span(run).first(bytes)); }), SIMPLER_PROTOCOL_ERROR);
  for (size_t bytes = 0; bytes < done.size(); bytes++)
    assert_int_equal(code_of([&] { decode_completion(std::span(done).first(bytes)); }), SIMPLER_PROTOCOL_ERROR);
  for (size_t bytes = 0; bytes < log.size(); bytes++)
    assert_int_equal(code_of([&] { decode_log(std::span(log).first(bytes)); }), SIMPLER_PROTOCOL_ERROR);
  std::mt19937_64 random(1);
  for (int round = 0; round < 20'000; round++) {
    for (std::vector<std::byte> bytes : {run, done, log}) {
      for (uint64_t k = random() % 4 + 1; k > 0; k--) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      code_of([&] { decode_run(bytes); });
      code_of([&] { decode_completion(bytes); });
      code_of([&] { decode_log(bytes); });
    }
  }
}

void both_sides_of_a_link_see_each_other(void **) {
  auto memory = std::make_unique<std::byte[]>(kLinkBytes);
  Link host = Link::create(memory.get());
  Link chip = Link::attach(memory.get());
  assert_true(host.to_chip.push(RecordType::kRun, encode(full_run(1, 1))));
  RecordType type{};
  std::vector<std::byte> body;
  assert_true(chip.to_chip.pop(type, body));
  assert_int_equal(decode_run(body).run, 77);
  assert_true(chip.to_host.push(RecordType::kLog, encode(LogRecord{SIMPLER_LOG_INFO, "hello"})));
  assert_true(host.to_host.pop(type, body));
  assert_true(type == RecordType::kLog);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      SIMPLER_TEST(records_come_out_as_they_went_in_over_many_laps),
      SIMPLER_TEST(a_full_ring_refuses_and_takes_again_after_a_pop),
      SIMPLER_TEST(hostile_cursors_and_lengths_are_refused),
      SIMPLER_TEST(one_producer_and_one_consumer_lose_nothing),
      SIMPLER_TEST(the_largest_run_record_fits_and_comes_back),
      SIMPLER_TEST(one_tensor_or_scalar_too_many_is_refused),
      SIMPLER_TEST(completions_and_logs_come_back_and_long_texts_are_cut),
      SIMPLER_TEST(truncated_and_mutated_records_never_do_harm),
      SIMPLER_TEST(both_sides_of_a_link_see_each_other),
  };
  return simpler_run_tests(tests);
}
