#include "graph/region.h"

#include <algorithm>

namespace simpler::graph {

namespace {

struct Axis {
  uint64_t stride;  // bytes
  uint64_t size;
};

// Splits `offset` into one index per axis, and moves what overflows an axis to the next larger one where that keeps the set of
// bytes (whole rows become rows). False when the box does not lie properly in the layout that its strides span, such as a
// range that runs over its row into the next one.
bool settle(uint64_t offset, Box &box) {
  for (uint32_t i = 0; i < box.rank; i++) {
    if (i > 0 && box.strides[i - 1] % box.strides[i] != 0) return false;
    box.low[i] = offset / box.strides[i];
    offset %= box.strides[i];
  }
  for (uint32_t i = box.rank - 1; i > 0; i--) {
    const uint64_t extent = box.strides[i - 1] / box.strides[i];
    if (box.low[i] + box.size[i] <= extent) continue;
    if (extent == 0 || box.low[i] != 0 || box.size[i] % extent != 0 || box.size[i - 1] != 1) return false;
    box.size[i - 1] = box.size[i] / extent;
    box.size[i] = extent;
  }
  return true;
}

// Sets `region` to the bytes that the axes (strides descending, the last 1) span from `begin`, in the one form.
void assign(Region &region, uint64_t allocation, uint64_t begin, const Axis *axes, uint32_t count) {
  Axis merged[kAxesMax];
  uint32_t rank = 0;
  region.begin = begin;
  region.end = begin + 1;
  for (uint32_t i = 0; i < count; i++) {
    region.end += (axes[i].size - 1) * axes[i].stride;
    const bool is_last = i + 1 == count;
    if (axes[i].size == 1 && !(is_last && (rank == 0 || merged[rank - 1].stride != 1))) continue;
    if (rank > 0 && merged[rank - 1].stride == axes[i].stride * axes[i].size)
      merged[rank - 1] = {axes[i].stride, merged[rank - 1].size * axes[i].size};
    else
      merged[rank++] = axes[i];
  }
  region.dense = rank == 1;  // its stride is 1
  if (region.dense) return;
  Box &box = region.box;
  box.allocation = allocation;
  box.rank = rank;
  for (uint32_t i = 0; i < rank; i++) {
    box.strides[i] = merged[i].stride;
    box.size[i] = merged[i].size;
  }
  if (!settle(begin - allocation, box)) box.rank = 0;
}

bool has_equal_strides(const Box &a, const Box &b) {
  return a.rank == b.rank && std::equal(a.strides, a.strides + a.rank, b.strides);
}

// `region` in the strides of `layout`, which contain its own.
bool refit(const Region &region, const Box &layout, Box &box) {
  box.allocation = layout.allocation;
  box.rank = layout.rank;
  if (region.begin < layout.allocation) return false;
  uint32_t axis = 0;
  for (uint32_t i = 0; i < layout.rank; i++) {
    box.strides[i] = layout.strides[i];
    box.size[i] = 1;
    if (region.dense) {
      if (i + 1 == layout.rank) box.size[i] = region.end - region.begin;
    } else if (axis < region.box.rank && region.box.strides[axis] == layout.strides[i]) {
      box.size[i] = region.box.size[axis++];
    }
  }
  return settle(region.begin - layout.allocation, box);
}

// Both regions as boxes of one layout, if there is one.
bool unify(const Region &a, const Region &b, Box &box_a, Box &box_b) {
  if ((!a.dense && a.box.rank == 0) || (!b.dense && b.box.rank == 0)) return false;
  if (a.dense || b.dense) {
    const Box &layout = a.dense ? b.box : a.box;
    return refit(a, layout, box_a) && refit(b, layout, box_b);
  }
  if (a.box.allocation != b.box.allocation) return false;
  if (has_equal_strides(a.box, b.box)) {
    box_a = a.box;
    box_b = b.box;
    return true;
  }
  Box layout;
  layout.allocation = a.box.allocation;
  layout.rank = 0;
  for (uint32_t i = 0, j = 0; i < a.box.rank || j < b.box.rank;) {
    const uint64_t stride_a = i < a.box.rank ? a.box.strides[i] : 0;
    const uint64_t stride_b = j < b.box.rank ? b.box.strides[j] : 0;
    if (layout.rank == kAxesMax) return false;
    layout.strides[layout.rank++] = std::max(stride_a, stride_b);
    if (stride_a >= stride_b) i++;
    if (stride_b >= stride_a) j++;
  }
  return refit(a, layout, box_a) && refit(b, layout, box_b);
}

bool overlap(const Box &a, const Box &b) {
  for (uint32_t i = 0; i < a.rank; i++) {
    if (a.low[i] >= b.low[i] + b.size[i] || b.low[i] >= a.low[i] + a.size[i]) return false;
  }
  return true;
}

bool hulls_overlap(const Region &a, const Region &b) { return a.begin < b.end && b.begin < a.end; }

// The part of `whole` on one side of the cut along `axis`: indices [low, high) there.
void assign_piece(Region &piece, const Box &whole, uint32_t axis, uint64_t low, uint64_t high) {
  Axis axes[kAxesMax];
  uint64_t begin = whole.allocation;
  for (uint32_t i = 0; i < whole.rank; i++) {
    axes[i] = {whole.strides[i], i == axis ? high - low : whole.size[i]};
    begin += (i == axis ? low : whole.low[i]) * whole.strides[i];
  }
  assign(piece, whole.allocation, begin, axes, whole.rank);
}

}  // namespace

void region_of_strided(const simpler_tensor &view, Region &region) {
  const uint64_t bits = simpler_dtype_bits(view.dtype);
  const bool is_sub_byte = bits < 8;
  const uint64_t begin = reinterpret_cast<uint64_t>(view.data);

  Axis axes[kAxesMax];
  uint32_t rank = 0;
  bool on_byte_boundaries = true;
  uint64_t last_bit = bits;
  for (uint32_t i = 0; i < view.rank; i++) {
    if (view.shape[i] == 1 || view.strides[i] == 0) continue;  // no extent in memory
    last_bit += (view.shape[i] - 1) * view.strides[i] * bits;
    // Of two elements in one byte, neighbours count as bytes; rows have to start on one.
    const bool are_neighbours = is_sub_byte && view.strides[i] == 1;
    if (!are_neighbours && view.strides[i] * bits % 8 != 0) on_byte_boundaries = false;
    const Axis axis =
        are_neighbours ? Axis{1, (view.shape[i] * bits + 7) / 8} : Axis{view.strides[i] * bits / 8, view.shape[i]};
    uint32_t at = rank++;  // sorted by insertion, largest stride first
    for (; at > 0 && axes[at - 1].stride < axis.stride; at--) axes[at] = axes[at - 1];
    axes[at] = axis;
  }
  if (is_sub_byte) {
    if (rank == 0 || axes[rank - 1].stride != 1) axes[rank++] = {1, 1};
  } else {
    axes[rank++] = {1, bits / 8};
  }
  if (on_byte_boundaries) {
    assign(region, reinterpret_cast<uint64_t>(view.allocation), begin, axes, rank);
    return;
  }
  region.begin = begin;
  region.end = begin + (last_bit + 7) / 8;
  region.dense = false;
  region.box.rank = 0;
}

bool overlap(const Region &a, const Region &b) {
  if (!hulls_overlap(a, b)) return false;
  if (a.dense && b.dense) return true;
  Box box_a;
  Box box_b;
  return !unify(a, b, box_a, box_b) || overlap(box_a, box_b);
}

bool covers(const Region &outer, const Region &inner) {
  if (outer.begin > inner.begin || outer.end < inner.end) return false;
  if (outer.dense) return true;
  Box out;
  Box in;
  if (!unify(outer, inner, out, in)) return false;
  for (uint32_t i = 0; i < out.rank; i++) {
    if (out.low[i] > in.low[i] || out.low[i] + out.size[i] < in.low[i] + in.size[i]) return false;
  }
  return true;
}

bool equal(const Region &a, const Region &b) {
  if (a.begin != b.begin || a.end != b.end || a.dense != b.dense) return false;
  if (a.dense) return true;
  return a.box.rank != 0 && a.box.allocation == b.box.allocation && has_equal_strides(a.box, b.box) &&
         std::equal(a.box.size, a.box.size + a.box.rank, b.box.size);
}

uint32_t subtract(const Region &whole, const Region &part, Region (&pieces)[kPiecesMax]) {
  uint32_t count = 0;
  if (part.dense && part.begin <= whole.begin && part.end >= whole.end) return 0;
  if (whole.dense && part.dense) {
    if (whole.begin < part.begin) {
      pieces[count].begin = whole.begin;
      pieces[count].end = part.begin;
      pieces[count++].dense = true;
    }
    if (whole.end > part.end) {
      pieces[count].begin = part.end;
      pieces[count].end = whole.end;
      pieces[count++].dense = true;
    }
    return count;
  }
  Box rest;
  Box cut;
  if (!unify(whole, part, rest, cut)) return kInseparable;
  // Axis by axis: what lies before and behind the cut is split off, what remains has the cut's range there.
  for (uint32_t i = 0; i < rest.rank; i++) {
    const uint64_t end = rest.low[i] + rest.size[i];
    const uint64_t low = std::max(rest.low[i], cut.low[i]);
    const uint64_t high = std::min(end, cut.low[i] + cut.size[i]);
    if (count + (rest.low[i] < low ? 1 : 0) + (high < end ? 1 : 0) > kPiecesMax) return kInseparable;
    if (rest.low[i] < low) assign_piece(pieces[count++], rest, i, rest.low[i], low);
    if (high < end) assign_piece(pieces[count++], rest, i, high, end);
    rest.low[i] = low;
    rest.size[i] = high - low;
  }
  return count;
}

}  // namespace simpler::graph
