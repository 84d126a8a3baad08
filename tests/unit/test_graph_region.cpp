// lib/graph/region: what two views have in common, against the sets of their bytes.
//
// A failing seed is printed; SEED=<number> runs that one alone.
#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>
#include <vector>

#include "support.h"

#include "graph/region.h"

using namespace simpler;
using namespace simpler::graph;

namespace {

constexpr uint64_t kBase = 1 << 20;
constexpr uint64_t kBytes = 4096;
constexpr uint64_t kSeeds = 20000;

simpler_tensor view_of(simpler_dtype dtype, uint64_t first_byte, std::vector<uint64_t> shape,
                       std::vector<uint64_t> strides) {
  simpler_tensor t = simpler_tensor_make(dtype, static_cast<uint32_t>(shape.size()), shape.data());
  std::copy(strides.begin(), strides.end(), t.strides);
  t.allocation = reinterpret_cast<void *>(kBase);
  t.allocation_bytes = kBytes;
  t.data = reinterpret_cast<void *>(kBase + first_byte);
  return t;
}

std::set<uint64_t> bytes_of(const simpler_tensor &t) {
  std::set<uint64_t> bytes;
  const uint64_t bits = simpler_dtype_bits(t.dtype);
  uint64_t index[SIMPLER_RANK_MAX] = {};
  if (simpler_tensor_elements(&t) == 0) return bytes;
  for (;;) {
    uint64_t element = 0;
    for (uint32_t i = 0; i < t.rank; i++) element += index[i] * t.strides[i];
    for (uint64_t bit = element * bits; bit < (element + 1) * bits; bit += 4)
      bytes.insert(reinterpret_cast<uint64_t>(t.data) + bit / 8);
    uint32_t axis = t.rank;
    while (axis > 0 && ++index[axis - 1] == t.shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return bytes;
  }
}

// The bytes of a region that has an exact form.
std::set<uint64_t> bytes_of(const Region &region) {
  std::set<uint64_t> bytes;
  if (region.dense) {
    for (uint64_t at = region.begin; at < region.end; at++) bytes.insert(at);
    return bytes;
  }
  const Box &box = region.box;
  std::vector<uint64_t> index(box.rank, 0);
  for (;;) {
    uint64_t at = box.allocation;
    for (uint32_t i = 0; i < box.rank; i++) at += (box.low[i] + index[i]) * box.strides[i];
    bytes.insert(at);
    uint32_t axis = box.rank;
    while (axis > 0 && ++index[axis - 1] == box.size[axis - 1]) index[--axis] = 0;
    if (axis == 0) return bytes;
  }
}

Region region_for(const simpler_tensor &view) {
  Region region;
  assert_true(region_of(view, region));
  return region;
}

bool has_exact_form(const Region &region) { return region.dense || region.box.rank != 0; }

bool intersect(const std::set<uint64_t> &a, const std::set<uint64_t> &b) {
  return std::any_of(a.begin(), a.end(), [&](uint64_t byte) { return b.contains(byte); });
}

// A block of a tensor of 4 x 8 x 8 elements with a row stride of 8, 9 or 12, with or without steps.
simpler_tensor random_view(std::mt19937_64 &random) {
  auto below = [&](uint64_t n) { return random() % n; };
  static const simpler_dtype dtypes[] = {SIMPLER_DTYPE_UINT8, SIMPLER_DTYPE_INT16, SIMPLER_DTYPE_FLOAT32,
                                         SIMPLER_DTYPE_FLOAT4_E2M1};
  static const uint64_t rows[] = {8, 8, 9, 12};
  const simpler_dtype dtype = dtypes[below(4)];
  const uint64_t row = rows[below(4)];
  uint64_t strides[] = {row * 8, row, 1};
  uint64_t extents[] = {4, 8, 8};
  uint64_t first = 0;
  std::vector<uint64_t> shape;
  for (int axis = 0; axis < 3; axis++) {
    const uint64_t start = below(extents[axis]);
    const uint64_t step = below(6) == 0 ? 2 : 1;
    first += start * strides[axis];
    shape.push_back(below(3) == 0 ? (extents[axis] - start + step - 1) / step
                                  : 1 + below((extents[axis] - start + step - 1) / step));
    strides[axis] *= step;
  }
  const uint64_t bits = simpler_dtype_bits(dtype);
  simpler_tensor t = view_of(dtype, first * bits / 8, shape, {strides[0], strides[1], strides[2]});
  const uint32_t axis = static_cast<uint32_t>(below(3));
  return below(3) == 0 ? simpler_tensor_transpose(&t, axis, (axis + 1) % 3) : t;
}

void check_pair(uint64_t seed, bool *was_exact) {
  std::mt19937_64 random(seed);
  const simpler_tensor view_a = random_view(random);
  const simpler_tensor view_b = random_view(random);
  const Region a = region_for(view_a);
  const Region b = region_for(view_b);
  const std::set<uint64_t> bytes_a = bytes_of(view_a);
  const std::set<uint64_t> bytes_b = bytes_of(view_b);
  const auto fail_with = [&](const char *what) {
    fail_msg("seed %lu: %s. Replay: SEED=%lu tests/unit/test_graph_region", seed, what, seed);
  };

  if (a.begin != *bytes_a.begin() || a.end != *bytes_a.rbegin() + 1) fail_with("the hull is wrong");
  if (has_exact_form(a) && bytes_of(a) != bytes_a) fail_with("the form has other bytes than the view");
  const bool share = intersect(bytes_a, bytes_b);
  if (share && !overlap(a, b)) fail_with("an overlap was missed");
  if (overlap(a, b) != overlap(b, a)) fail_with("overlap is not symmetric");
  if (covers(a, b) && !std::includes(bytes_a.begin(), bytes_a.end(), bytes_b.begin(), bytes_b.end()))
    fail_with("a region that is not covered was taken for covered");
  if (equal(a, b) && bytes_a != bytes_b) fail_with("unequal regions were taken for equal");
  if (equal(a, b) != equal(b, a)) fail_with("equal is not symmetric");
  *was_exact = overlap(a, b) == share;
  if (!share || !overlap(a, b)) return;

  Region pieces[kPiecesMax];
  const uint32_t count = subtract(a, b, pieces);
  if (count == kInseparable) return;
  std::set<uint64_t> rest;
  for (uint32_t i = 0; i < count; i++) {
    if (!has_exact_form(pieces[i])) fail_with("a piece has no exact form");
    for (const uint64_t byte : bytes_of(pieces[i])) {
      if (!rest.insert(byte).second) fail_with("pieces share a byte");
    }
    if (!equal(pieces[i], pieces[i])) fail_with("a piece does not equal itself");
  }
  std::set<uint64_t> expected;
  std::set_difference(bytes_a.begin(), bytes_a.end(), bytes_b.begin(), bytes_b.end(),
                      std::inserter(expected, expected.end()));
  if (rest != expected) fail_with("the pieces are not the difference");
}

void random_pairs_agree_with_the_sets_of_their_bytes(void **) {
  const char *only = getenv("SEED");
  bool was_exact = false;
  if (only != nullptr) {
    check_pair(strtoull(only, nullptr, 10), &was_exact);
    return;
  }
  uint64_t exact = 0;
  for (uint64_t seed = 1; seed <= kSeeds; seed++) {
    check_pair(seed, &was_exact);
    exact += was_exact ? 1 : 0;
  }
  assert_true(exact > kSeeds * 8 / 10);  // the rest are pairs of unlike layouts
}

void equal_bytes_have_one_form(void **) {
  const simpler_tensor flat = view_of(SIMPLER_DTYPE_UINT8, 0, {768}, {1});
  const simpler_tensor base = view_of(SIMPLER_DTYPE_FLOAT16, 0, {64, 6}, {6, 1});
  const simpler_tensor turned = view_of(SIMPLER_DTYPE_FLOAT16, 0, {6, 64}, {1, 6});
  assert_true(equal(region_for(flat), region_for(base)));
  assert_true(equal(region_for(base), region_for(turned)));
  const simpler_tensor columns = view_of(SIMPLER_DTYPE_FLOAT32, 8, {1, 16, 2, 2}, {999, 32, 2, 1});
  const simpler_tensor columns_as_bytes = view_of(SIMPLER_DTYPE_UINT8, 8, {16, 16}, {1, 128});
  assert_true(equal(region_for(columns), region_for(columns_as_bytes)));
}

void a_whole_block_is_compared_exactly_with_a_slice_across_blocks(void **) {
  // A cache of 4 blocks x 8 tokens x 64 bytes: one block whole, and bytes 0 to 15 of each token of the next block.
  const simpler_tensor block = view_of(SIMPLER_DTYPE_UINT8, 512, {512}, {1});
  const simpler_tensor head_of_all = view_of(SIMPLER_DTYPE_UINT8, 0, {4, 8, 16}, {512, 64, 1});
  const simpler_tensor head_of_some = view_of(SIMPLER_DTYPE_UINT8, 0, {2, 8, 16}, {1024, 64, 1});  // blocks 0 and 2
  assert_true(overlap(region_for(block), region_for(head_of_all)));
  assert_false(overlap(region_for(block), region_for(head_of_some)));
}

void an_empty_view_has_no_region(void **) {
  Region region;
  assert_false(region_of(view_of(SIMPLER_DTYPE_FLOAT32, 0, {4, 0}, {1, 1}), region));
  assert_false(region_of(view_of(SIMPLER_DTYPE_FLOAT32, 0, {0, 4}, {9, 2}), region));
}

void half_bytes_count_as_the_bytes_that_they_share(void **) {
  const Region three = region_for(view_of(SIMPLER_DTYPE_FLOAT4_E2M1, 0, {3}, {1}));
  assert_int_equal(three.end - three.begin, 2);
  // Rows of 4 bytes: bytes 0 and 1 of each, and bytes 2 and 3 of each.
  const Region left = region_for(view_of(SIMPLER_DTYPE_FLOAT4_E2M1, 0, {8, 4}, {8, 1}));
  const Region right = region_for(view_of(SIMPLER_DTYPE_FLOAT4_E2M1, 2, {8, 3}, {8, 1}));
  assert_false(overlap(left, right));
  // Rows of 7 elements start within bytes: only the hull is known.
  const Region odd = region_for(view_of(SIMPLER_DTYPE_FLOAT4_E2M1, 0, {8, 2}, {7, 1}));
  assert_int_equal(odd.box.rank, 0);
  assert_true(overlap(odd, right));
}

void a_broadcast_touches_its_bytes_once(void **) {
  const Region region = region_for(view_of(SIMPLER_DTYPE_FLOAT32, 16, {1000, 4}, {0, 1}));
  assert_true(region.dense);
  assert_int_equal(region.begin, kBase + 16);
  assert_int_equal(region.end, kBase + 32);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      SIMPLER_TEST(random_pairs_agree_with_the_sets_of_their_bytes),
      SIMPLER_TEST(equal_bytes_have_one_form),
      SIMPLER_TEST(a_whole_block_is_compared_exactly_with_a_slice_across_blocks),
      SIMPLER_TEST(an_empty_view_has_no_region),
      SIMPLER_TEST(half_bytes_count_as_the_bytes_that_they_share),
      SIMPLER_TEST(a_broadcast_touches_its_bytes_once),
  };
  return simpler_run_tests(tests);
}
