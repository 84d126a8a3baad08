// lib/host: the allocator of GM and the staging of host tensors.
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "base/error.h"
#include "host/gm_allocator.h"
#include "host/staging.h"
#include "support.h"  // after all others: it defines fail as a macro

using namespace simpler;
using namespace simpler::host;

namespace {

// ---- allocator ------------------------------------------------------------------------------------------------------

void low_addresses_are_used_first_and_neighbours_merge(void **) {
  GmAllocator gm(64 * 10);
  assert_int_equal(*gm.allocate(64), 0);
  assert_int_equal(*gm.allocate(1), 64);
  assert_int_equal(*gm.allocate(65), 128);
  assert_int_equal(gm.used(), 256);
  gm.free(64, 1);
  assert_int_equal(*gm.allocate(64), 64);
  gm.free(0, 64);
  gm.free(128, 65);
  gm.free(64, 64);
  assert_int_equal(gm.used(), 0);
  assert_int_equal(gm.largest_free(), 640);
  assert_int_equal(*gm.allocate(640), 0);
  assert_false(gm.allocate(1).has_value());
}

void requests_that_cannot_be_met_are_refused(void **) {
  GmAllocator gm(1024);
  assert_false(gm.allocate(0).has_value());
  assert_false(gm.allocate(1025).has_value());
  assert_false(gm.allocate(UINT64_MAX).has_value());
  assert_true(gm.allocate(1024).has_value());
}

void bytes_that_were_used_before_are_known(void **) {
  GmAllocator gm(1024);
  uint64_t offset = *gm.allocate(128);
  assert_int_equal(gm.dirty_bytes(offset, 128), 0);
  gm.free(offset, 128);
  offset = *gm.allocate(256);
  assert_int_equal(offset, 0);
  assert_int_equal(gm.dirty_bytes(offset, 256), 128);
}

void random_use_never_overlaps_and_ends_empty(void **) {
  std::mt19937_64 random(3);
  GmAllocator gm(1 << 16);
  std::vector<std::pair<uint64_t, uint64_t>> live;
  std::vector<bool> taken(1 << 16);
  for (int step = 0; step < 20'000; step++) {
    if (random() % 2 == 0) {
      const uint64_t bytes = random() % 2000 + 1;
      const std::optional<uint64_t> offset = gm.allocate(bytes);
      if (!offset) continue;
      for (uint64_t i = *offset; i < *offset + bytes; i++) {
        if (taken[i]) fail_msg("byte %lu is used twice", i);
        taken[i] = true;
      }
      live.emplace_back(*offset, bytes);
    } else if (!live.empty()) {
      const size_t pick = random() % live.size();
      gm.free(live[pick].first, live[pick].second);
      for (uint64_t i = 0; i < live[pick].second; i++) taken[live[pick].first + i] = false;
      live[pick] = live.back();
      live.pop_back();
    }
  }
  for (const auto &[offset, bytes] : live) gm.free(offset, bytes);
  assert_int_equal(gm.used(), 0);
  assert_int_equal(gm.largest_free(), 1 << 16);
}

// ---- staging --------------------------------------------------------------------------------------------------------

StagingPlan plan_of(const std::vector<simpler_tensor_arg> &tensors, BufferPlace place = {}) {
  return StagingPlan(tensors, std::vector<BufferPlace>(tensors.size(), place));
}

simpler_tensor_arg host_tensor(void *data, simpler_tag tag, std::initializer_list<uint64_t> shape,
                               simpler_dtype dtype = SIMPLER_DTYPE_FLOAT32) {
  return simpler_tensor_arg_make(data, tag, dtype, static_cast<uint32_t>(shape.size()), shape.begin());
}

std::string refusal_of(const simpler_tensor_arg &tensor, BufferPlace place = {}) {
  try {
    plan_of({tensor}, place);
  } catch (const Error &error) {
    assert_int_equal(error.info().code, SIMPLER_INVALID_ARGUMENT);
    return error.what();
  }
  return "";
}

void inputs_go_in_and_outputs_come_back(void **) {
  std::vector<float> in(100), out(100, 5.0f);
  std::iota(in.begin(), in.end(), 0.0f);
  const StagingPlan plan = plan_of(
      {host_tensor(in.data(), SIMPLER_TAG_INPUT, {10, 10}), host_tensor(out.data(), SIMPLER_TAG_OUTPUT_EXISTING, {100})});
  std::vector<std::byte> gm(4096, std::byte{0xEE});
  const auto records = plan.place(64);
  plan.copy_in(gm.data(), 64);
  assert_memory_equal(gm.data() + records[0].offset, in.data(), 400);
  for (int i = 0; i < 400; i++) assert_int_equal(static_cast<int>(gm[records[1].offset + static_cast<size_t>(i)]), 0);
  memcpy(gm.data() + records[1].offset, in.data(), 400);
  std::fill(in.begin(), in.end(), -1.0f);
  plan.copy_out(gm.data(), 64);
  assert_true(in[3] == -1.0f && out[3] == 3.0f && out[99] == 99.0f);
  assert_int_equal(plan.bytes_in(), 400);
  assert_int_equal(plan.bytes_out(), 400);
}

void a_strided_view_is_packed_and_its_gaps_are_not_touched(void **) {
  std::vector<float> matrix(8 * 10);
  std::iota(matrix.begin(), matrix.end(), 0.0f);
  simpler_tensor_arg view = host_tensor(&matrix[2], SIMPLER_TAG_INOUT, {8, 3});
  view.strides[0] = 10;
  const StagingPlan plan = plan_of({view});
  const control::TensorRecord record = plan.place(0)[0];
  assert_int_equal(record.strides[0], 3);
  assert_int_equal(record.allocation_bytes, 8 * 3 * 4);
  std::vector<std::byte> gm(4096);
  plan.copy_in(gm.data(), 0);
  auto *packed = reinterpret_cast<float *>(gm.data());
  for (int i = 0; i < 8; i++) {
    for (int j = 0; j < 3; j++) {
      assert_true(packed[i * 3 + j] == static_cast<float>(i * 10 + 2 + j));
      packed[i * 3 + j] += 1000.0f;
    }
  }
  plan.copy_out(gm.data(), 0);
  for (int i = 0; i < 80; i++) {
    const bool inside = i % 10 >= 2 && i % 10 < 5;
    assert_true(matrix[static_cast<size_t>(i)] == static_cast<float>(i + (inside ? 1000 : 0)));
  }
}

void a_transposed_view_arrives_in_its_own_order(void **) {
  std::vector<int32_t> matrix(6);
  std::iota(matrix.begin(), matrix.end(), 0);  // 2 x 3
  simpler_tensor_arg view = host_tensor(matrix.data(), SIMPLER_TAG_INPUT, {3, 2}, SIMPLER_DTYPE_INT32);
  view.strides[0] = 1;
  view.strides[1] = 3;
  const StagingPlan plan = plan_of({view});
  std::vector<std::byte> gm(64);
  plan.copy_in(gm.data(), 0);
  const int32_t expected[] = {0, 3, 1, 4, 2, 5};
  assert_memory_equal(gm.data(), expected, sizeof expected);
}

void tensors_that_overlap_in_the_host_overlap_on_the_chip(void **) {
  std::vector<uint8_t> bytes(64);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  const StagingPlan plan = plan_of({host_tensor(&bytes[0], SIMPLER_TAG_INPUT, {32}, SIMPLER_DTYPE_UINT8),
                                    host_tensor(&bytes[16], SIMPLER_TAG_INOUT, {32}, SIMPLER_DTYPE_UINT8),
                                    host_tensor(&bytes[56], SIMPLER_TAG_INPUT, {8}, SIMPLER_DTYPE_UINT8)});
  const auto records = plan.place(0);
  assert_int_equal(records[1].offset - records[0].offset, 16);
  assert_int_equal(records[0].allocation_offset, records[1].allocation_offset);
  assert_int_not_equal(records[0].allocation_offset, records[2].allocation_offset);
  std::vector<std::byte> gm(256);
  plan.copy_in(gm.data(), 0);
  assert_memory_equal(gm.data(), bytes.data(), 48);
}

void broadcast_is_copied_once(void **) {
  float row[4] = {1, 2, 3, 4};
  simpler_tensor_arg view = host_tensor(row, SIMPLER_TAG_INPUT, {1000, 4});
  view.strides[0] = 0;
  const StagingPlan plan = plan_of({view});
  assert_int_equal(plan.place(0)[0].allocation_bytes, 16);
  assert_int_equal(plan.place(0)[0].strides[0], 0);
  std::vector<std::byte> gm(64);
  plan.copy_in(gm.data(), 0);
  assert_memory_equal(gm.data(), row, 16);
}

void an_empty_tensor_takes_no_memory(void **) {
  float none = 0;
  const StagingPlan plan = plan_of({host_tensor(&none, SIMPLER_TAG_INOUT, {5, 0})});
  assert_int_equal(plan.bytes(), 0);
  plan.copy_in(nullptr, 0);
  plan.copy_out(nullptr, 0);
}

void float4_counts_two_elements_per_byte(void **) {
  std::vector<uint8_t> bytes(64, 7);
  const StagingPlan plan = plan_of({host_tensor(bytes.data(), SIMPLER_TAG_INPUT, {4, 6}, SIMPLER_DTYPE_FLOAT4_E2M1)});
  assert_int_equal(plan.place(0)[0].allocation_bytes, 12);
  std::vector<std::byte> gm(64);
  plan.copy_in(gm.data(), 0);
  assert_memory_equal(gm.data(), bytes.data(), 12);
  simpler_tensor_arg odd = host_tensor(bytes.data(), SIMPLER_TAG_INPUT, {4, 5}, SIMPLER_DTYPE_FLOAT4_E2M1);
  assert_non_null(strstr(refusal_of(odd).c_str(), "float4"));
}

void buffers_are_used_where_they_are(void **) {
  simpler_tensor_arg tensor = simpler_tensor_arg_make_in_buffer(reinterpret_cast<simpler_buffer *>(8), 16, SIMPLER_TAG_INOUT,
                                                                SIMPLER_DTYPE_UINT8, 1, std::vector<uint64_t>{48}.data());
  const StagingPlan plan = plan_of({tensor}, {4096, 64});
  assert_int_equal(plan.bytes(), 0);
  assert_int_equal(plan.place(0)[0].offset, 4112);
  assert_int_equal(plan.place(0)[0].allocation_offset, 4096);
  assert_int_equal(plan.place(0)[0].allocation_bytes, 64);
  tensor.shape[0] = 49;
  assert_non_null(strstr(refusal_of(tensor, {4096, 64}).c_str(), "64 bytes"));
}

void nonsense_is_refused_with_the_argument_and_the_value(void **) {
  float data[4] = {};
  const simpler_tensor_arg good = host_tensor(data, SIMPLER_TAG_INPUT, {4});
  assert_string_equal(refusal_of(good).c_str(), "");
  auto with = [&](auto change) {
    simpler_tensor_arg tensor = good;
    change(tensor);
    return refusal_of(tensor);
  };
  auto says = [](const std::string &text, const char *part) {
    if (text.find("task.tensors[0]") == std::string::npos || text.find(part) == std::string::npos)
      fail_msg("'%s' does not contain '%s'", text.c_str(), part);
  };
  says(with([](auto &t) { t.rank = 0; }), "rank is 0");
  says(with([](auto &t) { t.rank = SIMPLER_RANK_MAX + 1; }), "rank is 9");
  says(with([](auto &t) { t.dtype = 0; }), "dtype 0");
  says(with([](auto &t) { t.dtype = 17; }), "dtype 17");
  says(with([](auto &t) { t.tag = SIMPLER_TAG_OUTPUT; }), "tag is 2");
  says(with([](auto &t) { t.reserved = 3; }), "reserved is 3");
  says(with([](auto &t) { t.data = nullptr; }), "none of data and buffer");
  says(with([](auto &t) { t.shape[0] = UINT64_MAX; }), "2^46");
  says(with([](auto &t) { t.strides[0] = UINT64_MAX; }), "2^46");
  says(with([](auto &t) {
         t.tag = SIMPLER_TAG_INOUT;
         t.strides[0] = 0;
       }),
       "stride 0");
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      SIMPLER_TEST(low_addresses_are_used_first_and_neighbours_merge),
      SIMPLER_TEST(requests_that_cannot_be_met_are_refused),
      SIMPLER_TEST(bytes_that_were_used_before_are_known),
      SIMPLER_TEST(random_use_never_overlaps_and_ends_empty),
      SIMPLER_TEST(inputs_go_in_and_outputs_come_back),
      SIMPLER_TEST(a_strided_view_is_packed_and_its_gaps_are_not_touched),
      SIMPLER_TEST(a_transposed_view_arrives_in_its_own_order),
      SIMPLER_TEST(tensors_that_overlap_in_the_host_overlap_on_the_chip),
      SIMPLER_TEST(broadcast_is_copied_once),
      SIMPLER_TEST(an_empty_tensor_takes_no_memory),
      SIMPLER_TEST(float4_counts_two_elements_per_byte),
      SIMPLER_TEST(buffers_are_used_where_they_are),
      SIMPLER_TEST(nonsense_is_refused_with_the_argument_and_the_value),
  };
  return simpler_run_tests(tests);
}
