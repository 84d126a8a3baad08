// One element of a tensor as a scalar word (device.h, simpler_orch_read_scalar): load, store, compare. Pure functions; the caller sees to it
// that nobody writes the element meanwhile.
#pragma once

#include <cstdint>
#include <string>

#include "simpler/device.h"

namespace simpler::chip {

// Where an element stands: its first byte, and for two elements per byte which half.
struct ElementPlace {
  void *byte = nullptr;
  bool is_high_half = false;
};

// The element at `index` of a view that is sound; false when the index is outside of it.
bool locate_element(const simpler_tensor &view, const uint64_t *index, ElementPlace &place);
// Why locate_element said false.
std::string explain_index(const simpler_tensor &view, const uint64_t *index);

uint64_t load_element(const ElementPlace &place, simpler_dtype dtype);
void store_element(const ElementPlace &place, simpler_dtype dtype, uint64_t word);

constexpr bool is_comparison(simpler_compare compare) {
  return compare >= SIMPLER_COMPARE_EQ && compare <= SIMPLER_COMPARE_GE;
}
// `a compare b` for two words of that dtype; with a NaN only NE holds.
bool compare_words(uint64_t a, simpler_compare compare, uint64_t b, simpler_dtype dtype);

}  // namespace simpler::chip
