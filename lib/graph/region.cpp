#include "graph/region.h"

#include <algorithm>

namespace simpler::graph {

namespace {

struct Axis {
  uint64_t stride;  // bytes
  uint64_t size;
};

// Splits `offset` into one index per axis. False when the box does not lie properly in the layout that its strides span
// (an index range that runs over its axis into the next row): then only the hull is known.
bool decompose(uint64_t offset, Box &box) {
  for (uint32_t i = 0; i < box.rank; i++) {
    if (i > 0) {
      if (box.strides[i - 1] % box.strides[i] != 0) return false;
      const uint64_t extent = box.strides[i - 1] / box.strides[i];
      box.low[i] = offset / box.strides[i];
      if (box.size[i] > extent || box.low[i] > extent - box.size[i]) return false;
    } else {
      box.low[i] = offset / box.strides[i];
    }
    offset %= box.strides[i];
  }
  return true;
}

bool same_layout(const Box &a, const Box &b) {
  if (a.rank == 0 || a.rank != b.rank || a.allocation != b.allocation) return false;
  for (uint32_t i = 0; i < a.rank; i++) {
    if (a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

// A dense interval inside one row of the layout of `like`, as a box of that layout; rank 0 when it is none.
Box interval_as_box(const Region &interval, const Box &like) {
  Box box;
  if (like.rank == 0 || interval.begin < like.allocation) return box;
  box = like;
  for (uint32_t i = 0; i + 1 < box.rank; i++) box.size[i] = 1;
  box.size[box.rank - 1] = interval.end - interval.begin;
  if (!decompose(interval.begin - like.allocation, box)) box.rank = 0;
  return box;
}

bool boxes_overlap(const Box &a, const Box &b) {
  for (uint32_t i = 0; i < a.rank; i++) {
    if (a.low[i] >= b.low[i] + b.size[i] || b.low[i] >= a.low[i] + a.size[i]) return false;
  }
  return true;
}

}  // namespace

std::optional<Region> region_of(const simpler_tensor &view) {
  const uint64_t bits = simpler_dtype_bits(view.dtype);
  Region region;
  region.begin = reinterpret_cast<uint64_t>(view.data);

  // Fast path: contiguous row-major views, by far the most.
  uint64_t dense_elements = 1;
  bool row_major = true;
  for (uint32_t i = view.rank; i > 0; i--) {
    const uint64_t size = view.shape[i - 1];
    if (size == 0) return std::nullopt;
    if (size != 1 && view.strides[i - 1] != dense_elements) row_major = false;
    dense_elements *= size;
  }
  if (row_major) {
    region.end = region.begin + (dense_elements * bits + 7) / 8;
    return region;
  }

  std::array<Axis, SIMPLER_RANK_MAX + 1> axes;
  uint32_t rank = 0;
  const bool sub_byte = bits < 8;
  const uint64_t element_bytes = sub_byte ? 1 : bits / 8;
  for (uint32_t i = 0; i < view.rank; i++) {
    if (view.shape[i] == 1 || view.strides[i] == 0) continue;  // no extent in memory
    axes[rank++] = {view.strides[i], view.shape[i]};
  }
  std::sort(axes.begin(), axes.begin() + rank, [](const Axis &a, const Axis &b) { return a.stride > b.stride; });
  uint64_t last_element = 0;
  for (uint32_t i = 0; i < rank; i++) last_element += (axes[i].size - 1) * axes[i].stride;
  region.end = region.begin + (sub_byte ? (last_element * bits + bits + 7) / 8 : (last_element + 1) * element_bytes);
  if (sub_byte) {
    // Rows of half-byte elements need not start on bytes: the hull is all that is said.
    region.dense = false;
    return region;
  }

  // Bytes become the innermost axis, of stride 1; then dense neighbours merge.
  for (uint32_t i = 0; i < rank; i++) axes[i].stride *= element_bytes;
  axes[rank++] = {1, element_bytes};
  uint32_t merged = 0;
  for (uint32_t i = 1; i < rank; i++) {
    if (axes[merged].stride == axes[i].stride * axes[i].size)
      axes[merged] = {axes[i].stride, axes[merged].size * axes[i].size};
    else
      axes[++merged] = axes[i];
  }
  rank = merged + 1;
  if (rank == 1 && axes[0].stride == 1) return region;  // dense after all, in another order

  region.dense = false;
  region.box.allocation = reinterpret_cast<uint64_t>(view.allocation);
  region.box.rank = rank;
  for (uint32_t i = 0; i < rank; i++) {
    region.box.strides[i] = axes[i].stride;
    region.box.size[i] = axes[i].size;
  }
  if (!decompose(region.begin - region.box.allocation, region.box)) region.box.rank = 0;
  return region;
}

bool overlap(const Region &a, const Region &b) {
  if (a.begin >= b.end || b.begin >= a.end) return false;
  if (a.dense && b.dense) return true;
  if (!a.dense && !b.dense) return !same_layout(a.box, b.box) || boxes_overlap(a.box, b.box);
  const Region &interval = a.dense ? a : b;
  const Box &box = a.dense ? b.box : a.box;
  const Box row = interval_as_box(interval, box);
  return row.rank == 0 || boxes_overlap(row, box);
}

bool covers(const Region &outer, const Region &inner) {
  if (outer.begin > inner.begin || outer.end < inner.end) return false;
  if (outer.dense) return true;
  if (inner.dense || !same_layout(outer.box, inner.box)) return false;
  for (uint32_t i = 0; i < outer.box.rank; i++) {
    if (outer.box.low[i] > inner.box.low[i] ||
        outer.box.low[i] + outer.box.size[i] < inner.box.low[i] + inner.box.size[i])
      return false;
  }
  return true;
}

bool equal(const Region &a, const Region &b) {
  if (a.begin != b.begin || a.end != b.end || a.dense != b.dense) return false;
  if (a.dense) return true;
  if (!same_layout(a.box, b.box)) return false;
  for (uint32_t i = 0; i < a.box.rank; i++) {
    if (a.box.low[i] != b.box.low[i] || a.box.size[i] != b.box.size[i]) return false;
  }
  return true;
}

}  // namespace simpler::graph
