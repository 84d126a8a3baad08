// Which bytes a tensor view touches: an interval, or a box of rows inside one.
//
// A region is a byte hull [begin, end) and, for a view with holes, a `Box`: the view's dimensions sorted by stride, with
// dimensions of one element dropped and dense neighbours merged. Two boxes of equal strides over one allocation are compared
// exactly, axis by axis; everything else by hulls, which may report a conflict that is none, never miss one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "simpler/device.h"

namespace simpler::graph {

struct Box {
  uint64_t allocation = 0;  // address that the axes' positions are relative to
  uint32_t rank = 0;        // at least 2; 0: no exact form is known, use the hull
  std::array<uint64_t, SIMPLER_RANK_MAX + 1> strides{};  // bytes, descending, each a multiple of the next; the last is 1
  std::array<uint64_t, SIMPLER_RANK_MAX + 1> low{};      // first index per axis
  std::array<uint64_t, SIMPLER_RANK_MAX + 1> size{};     // indices per axis
};

struct Region {
  uint64_t begin = 0;  // address of the first byte
  uint64_t end = 0;    // one past the last byte
  bool dense = true;   // every byte of the hull is touched; otherwise `box` says which (or rank 0: unknown)
  Box box;             // meaningful if not dense
};

// The region of a view, or nothing for an empty view (a dimension of 0). The view must have been checked: rank, dtype,
// 64-bit products, inside its allocation.
std::optional<Region> region_of(const simpler_tensor &view);

// Whether two regions may share a byte.
bool overlap(const Region &a, const Region &b);
// Whether `outer` certainly touches every byte of `inner`.
bool covers(const Region &outer, const Region &inner);
// Whether they are the same bytes, told by their form.
bool equal(const Region &a, const Region &b);

}  // namespace simpler::graph
