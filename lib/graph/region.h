// Which bytes a tensor view touches, and what two such sets have in common.
//
// A region is a byte hull [begin, end) and, for a view with holes, a `Box`: the view's dimensions sorted by stride, with
// dimensions of one element dropped and dense neighbours merged, so that equal sets of bytes have one form. Two regions are
// compared exactly when one list of strides describes both: always for intervals, for boxes of equal strides, and for most
// intervals, rows and blocks against boxes. Everything else is compared by hulls, which may report a conflict that is none,
// but never miss one.
//
// Plain values; no thread owns them. The bytes themselves are never touched.
#pragma once

#include <cstdint>

#include "simpler/device.h"

namespace simpler::graph {

inline constexpr uint32_t kAxesMax = SIMPLER_RANK_MAX + 1;  // the dimensions of a tensor and the bytes of an element

// Left uninitialised on purpose: most regions are dense and never look at it.
struct Box {
  uint64_t allocation;         // address that the axes' positions are relative to
  uint32_t rank;               // at least 2; 0: no exact form is known, only the hull
  uint64_t strides[kAxesMax];  // bytes, descending, each a multiple of the next; the last is 1
  uint64_t low[kAxesMax];      // first index per axis
  uint64_t size[kAxesMax];     // indices per axis
};

struct Region {
  uint64_t begin;  // address of the first byte
  uint64_t end;    // one past the last byte
  bool dense;      // every byte of the hull is touched; otherwise `box` says which (or rank 0: unknown)
  Box box;         // meaningful only if not dense
};

// region_of for views that are not contiguous row-major.
void region_of_strided(const simpler_tensor &view, Region &region);

// The region of a view; false for an empty view (a dimension of 0), which touches nothing. The view must have been checked:
// rank, dtype, 64-bit products, inside its allocation.
inline bool region_of(const simpler_tensor &view, Region &region) {
  uint64_t elements = 1;
  bool is_row_major = true;
  for (uint32_t i = view.rank; i > 0; i--) {
    const uint64_t size = view.shape[i - 1];
    if (size != 1 && view.strides[i - 1] != elements) is_row_major = false;
    elements *= size;
  }
  if (elements == 0) return false;
  if (!is_row_major) {
    region_of_strided(view, region);
    return true;
  }
  region.begin = reinterpret_cast<uint64_t>(view.data);
  region.end = region.begin + (elements * simpler_dtype_bits(view.dtype) + 7) / 8;
  region.dense = true;
  return true;
}

// Whether two regions may share a byte.
bool overlap(const Region &a, const Region &b);
// Whether `outer` certainly touches every byte of `inner`.
bool covers(const Region &outer, const Region &inner);
// Whether they are the same bytes, told by their form.
bool equal(const Region &a, const Region &b);

// What is left of `whole` without `part`, as disjoint regions; the two overlap. Returns their number, 0 when `part` covers
// `whole`, and kInseparable when no exact answer of at most kPiecesMax pieces is known.
inline constexpr uint32_t kPiecesMax = 6;  // a block cut out of the middle of three dimensions
inline constexpr uint32_t kInseparable = UINT32_MAX;
uint32_t subtract(const Region &whole, const Region &part, Region (&pieces)[kPiecesMax]);

}  // namespace simpler::graph
