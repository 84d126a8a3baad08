#include "host/staging.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"

namespace simpler::host {

namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kBytesMax = uint64_t{1} << 46;  // of any extent; keeps sums of a few of them far from overflow

uint64_t round_up(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool is_empty(const simpler_tensor_arg &t) {
  for (uint32_t i = 0; i < t.rank; i++) {
    if (t.shape[i] == 0) return true;
  }
  return false;
}

// Bytes from the first to behind the last element. The tensor is not empty.
uint64_t extent_bytes(const simpler_tensor_arg &t, const uint64_t *strides) {
  uint64_t last = 0;
  for (uint32_t i = 0; i < t.rank; i++) last += (t.shape[i] - 1) * strides[i];
  return ((last + 1) * simpler_dtype_bits(t.dtype) + 7) / 8;
}

// Dense row-major strides; dimensions that are broadcast stay so.
void dense_strides(const simpler_tensor_arg &t, uint64_t *strides) {
  uint64_t stride = 1;
  for (uint32_t i = t.rank; i > 0; i--) {
    const bool broadcast = t.shape[i - 1] > 1 && t.strides[i - 1] == 0;
    strides[i - 1] = broadcast ? 0 : stride;
    if (!broadcast) stride *= t.shape[i - 1];
  }
}

void check_argument(const simpler_tensor_arg &t, size_t index, const BufferPlace &place) {
  auto refuse = [index]<class... Args>(fmt::format_string<Args...> text, Args &&...args) {
    throw Error(SIMPLER_INVALID_ARGUMENT,
                fmt::format("task.tensors[{}]: {}", index, fmt::format(text, std::forward<Args>(args)...)));
  };
  if (t.reserved != 0) refuse("reserved is {}; it must be 0", t.reserved);
  if (t.tag != SIMPLER_TAG_INPUT && t.tag != SIMPLER_TAG_INOUT && t.tag != SIMPLER_TAG_OUTPUT_EXISTING)
    refuse("tag is {}; allowed are INPUT (1), INOUT (3) and OUTPUT_EXISTING (4)", t.tag);
  const uint64_t bits = simpler_dtype_bits(t.dtype);
  if (bits == 0) refuse("dtype {} does not exist", t.dtype);
  if (t.rank < 1 || t.rank > SIMPLER_RANK_MAX) refuse("rank is {}; allowed are 1 to {}", t.rank, SIMPLER_RANK_MAX);
  if ((t.data != nullptr) == (t.buffer != nullptr))
    refuse("{} of data and buffer are set; set exactly one", t.data != nullptr ? "both" : "none");
  if (t.data != nullptr && t.offset != 0) refuse("offset is {} with data; it belongs to buffer", t.offset);
  if (is_empty(t)) {
    if (t.buffer != nullptr && t.offset > place.bytes)
      refuse("offset {} lies behind the buffer's end ({} bytes)", t.offset, place.bytes);
    return;
  }
  uint64_t last = 0;
  for (uint32_t i = 0; i < t.rank; i++) {
    if (t.shape[i] > 1 && t.strides[i] == 0 && t.tag != SIMPLER_TAG_INPUT)
      refuse("stride 0 in dimension {} of a tensor that is written; broadcast is for INPUT only", i);
    uint64_t reach = 0;
    if (__builtin_mul_overflow(t.shape[i] - 1, t.shape[i] > 1 ? t.strides[i] : 0, &reach) ||
        __builtin_add_overflow(last, reach, &last) || last > kBytesMax)
      refuse("its shape and strides reach over more than 2^46 elements");
  }
  uint64_t elements = 1;
  for (uint32_t i = 0; i < t.rank; i++) {
    if (__builtin_mul_overflow(elements, t.shape[i], &elements) || elements > kBytesMax)
      refuse("its shape has more than 2^46 elements");
  }
  const uint64_t bytes = ((last + 1) * bits + 7) / 8;
  if (t.buffer != nullptr && (t.offset > place.bytes || bytes > place.bytes - t.offset))
    refuse("it needs bytes {} to {} of a buffer of {} bytes", t.offset, t.offset + bytes, place.bytes);
  if (bits < 8) {
    // Two elements per byte: every row has to be whole bytes.
    for (uint32_t i = 0; i < t.rank; i++) {
      const bool inner = i + 1 == t.rank;
      const bool whole = inner ? t.shape[i] <= 1 || t.strides[i] == 1 : t.shape[i] <= 1 || t.strides[i] % 2 == 0;
      if (!whole || (inner && t.rank > 1 && t.shape[i] % 2 != 0 && elements != t.shape[i]))
        refuse("rows of a float4 tensor must be dense and have an even number of elements");
    }
  }
}

// A copy of an n-dimensional box between two layouts, in units of bytes.
struct BoxCopy {
  uint32_t rank = 0;
  uint64_t unit = 1;  // bytes of an element, or of a dense innermost row
  std::array<uint64_t, SIMPLER_RANK_MAX> shape{};
  std::array<uint64_t, SIMPLER_RANK_MAX> first{};  // strides in bytes
  std::array<uint64_t, SIMPLER_RANK_MAX> second{};
};

BoxCopy box_of(const simpler_tensor_arg &t, const uint64_t *first, const uint64_t *second) {
  const uint64_t bits = simpler_dtype_bits(t.dtype);
  BoxCopy box;
  box.unit = bits < 8 ? 1 : bits / 8;
  for (uint32_t i = 0; i < t.rank; i++) {
    if (t.shape[i] == 1) continue;
    // A dimension that is broadcast on both sides is one row.
    if (first[i] == 0 && second[i] == 0) continue;
    const bool inner_sub_byte = bits < 8 && first[i] == 1;
    box.shape[box.rank] = inner_sub_byte ? (t.shape[i] + 1) / 2 : t.shape[i];
    box.first[box.rank] = inner_sub_byte ? 1 : first[i] * bits / 8;
    box.second[box.rank] = inner_sub_byte ? 1 : second[i] * bits / 8;
    box.rank++;
  }
  // Innermost dimensions that are dense on both sides become one memcpy.
  while (box.rank > 0 && box.first[box.rank - 1] == box.unit && box.second[box.rank - 1] == box.unit) {
    box.unit *= box.shape[box.rank - 1];
    box.rank--;
  }
  return box;
}

// visit(offset in the first layout, offset in the second, bytes) for each dense piece.
template <class Visit>
void for_each_piece(const BoxCopy &box, Visit visit) {
  std::array<uint64_t, SIMPLER_RANK_MAX> index{};
  uint64_t first = 0;
  uint64_t second = 0;
  for (;;) {
    visit(first, second, box.unit);
    uint32_t axis = box.rank;
    for (; axis > 0; axis--) {
      const uint32_t i = axis - 1;
      first += box.first[i];
      second += box.second[i];
      if (++index[i] < box.shape[i]) break;
      first -= box.first[i] * box.shape[i];
      second -= box.second[i] * box.shape[i];
      index[i] = 0;
    }
    if (axis == 0) return;
  }
}

}  // namespace

StagingPlan::StagingPlan(std::span<const simpler_tensor_arg> tensors, std::span<const BufferPlace> places) {
  SIMPLER_ASSERT(places.size() == tensors.size());
  tensors_.resize(tensors.size());
  for (size_t i = 0; i < tensors.size(); i++) {
    check_argument(tensors[i], i, places[i]);
    Tensor &tensor = tensors_[i];
    tensor.argument = tensors[i];
    tensor.staged = tensors[i].buffer == nullptr;
    tensor.buffer = places[i];
    std::copy_n(tensors[i].strides, SIMPLER_RANK_MAX, tensor.strides);
    // The stride of a dimension of one element means nothing: give it none that could be too large.
    for (uint32_t axis = 0; axis < tensors[i].rank; axis++) {
      if (tensors[i].shape[axis] <= 1) tensor.strides[axis] = tensor.argument.strides[axis] = 1;
    }
  }
  arrange();
}

// Gives each staged tensor its place: alone and dense, or together with those that it overlaps.
void StagingPlan::arrange() {
  struct Hull {
    uint64_t begin;
    uint64_t end;
    Tensor *tensor;
  };
  std::vector<Hull> hulls;
  for (Tensor &tensor : tensors_) {
    if (!tensor.staged || is_empty(tensor.argument)) continue;
    const uint64_t begin = reinterpret_cast<uint64_t>(tensor.argument.data);
    hulls.push_back({begin, begin + extent_bytes(tensor.argument, tensor.argument.strides), &tensor});
  }
  std::sort(hulls.begin(), hulls.end(), [](const Hull &a, const Hull &b) { return a.begin < b.begin; });
  for (size_t first = 0; first < hulls.size();) {
    uint64_t end = hulls[first].end;
    size_t last = first + 1;
    while (last < hulls.size() && hulls[last].begin < end) end = std::max(end, hulls[last++].end);
    const bool alone = last == first + 1;
    uint64_t block_bytes = end - hulls[first].begin;
    if (alone) {
      Tensor &tensor = *hulls[first].tensor;
      dense_strides(tensor.argument, tensor.strides);
      block_bytes = extent_bytes(tensor.argument, tensor.strides);
    }
    for (size_t i = first; i < last; i++) {
      Tensor &tensor = *hulls[i].tensor;
      tensor.block_offset = bytes_;
      tensor.block_bytes = block_bytes;
      tensor.offset = bytes_ + (hulls[i].begin - hulls[first].begin);
      const uint64_t tensor_bytes = extent_bytes(tensor.argument, tensor.strides);
      if (tensor.argument.tag != SIMPLER_TAG_OUTPUT_EXISTING) bytes_in_ += tensor_bytes;
      if (tensor.argument.tag != SIMPLER_TAG_INPUT) bytes_out_ += tensor_bytes;
    }
    bytes_ += round_up(block_bytes);
    first = last;
  }
}

std::vector<control::TensorRecord> StagingPlan::place(uint64_t gm_offset) const {
  std::vector<control::TensorRecord> records(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); i++) {
    const Tensor &tensor = tensors_[i];
    control::TensorRecord &record = records[i];
    record.offset = tensor.staged ? gm_offset + tensor.offset : tensor.buffer.gm_offset + tensor.argument.offset;
    record.allocation_offset = tensor.staged ? gm_offset + tensor.block_offset : tensor.buffer.gm_offset;
    record.allocation_bytes = tensor.staged ? tensor.block_bytes : tensor.buffer.bytes;
    record.tag = tensor.argument.tag;
    record.dtype = tensor.argument.dtype;
    record.rank = tensor.argument.rank;
    std::copy_n(tensor.argument.shape, tensor.argument.rank, record.shape);
    std::copy_n(tensor.strides, tensor.argument.rank, record.strides);
  }
  return records;
}

void StagingPlan::copy_in(std::byte *gm, uint64_t gm_offset) const {
  // First what is only written, then the inputs: where they overlap, the input's bytes count.
  for (const bool inputs : {false, true}) {
    for (const Tensor &tensor : tensors_) {
      if (!tensor.staged || is_empty(tensor.argument)) continue;
      if ((tensor.argument.tag != SIMPLER_TAG_OUTPUT_EXISTING) != inputs) continue;
      std::byte *to = gm + gm_offset + tensor.offset;
      const auto *from = static_cast<const std::byte *>(tensor.argument.data);
      for_each_piece(box_of(tensor.argument, tensor.argument.strides, tensor.strides),
                     [&](uint64_t host, uint64_t chip, uint64_t bytes) {
                       if (inputs)
                         memcpy(to + chip, from + host, bytes);
                       else
                         memset(to + chip, 0, bytes);
                     });
    }
  }
}

void StagingPlan::copy_out(const std::byte *gm, uint64_t gm_offset) const {
  for (const Tensor &tensor : tensors_) {
    if (!tensor.staged || is_empty(tensor.argument) || tensor.argument.tag == SIMPLER_TAG_INPUT) continue;
    auto *to = static_cast<std::byte *>(tensor.argument.data);
    const std::byte *from = gm + gm_offset + tensor.offset;
    for_each_piece(box_of(tensor.argument, tensor.argument.strides, tensor.strides),
                   [&](uint64_t host, uint64_t chip, uint64_t bytes) { memcpy(to + host, from + chip, bytes); });
  }
}

}  // namespace simpler::host
