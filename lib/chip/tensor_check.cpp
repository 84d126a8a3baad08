#include "chip/tensor_check.h"

#include "base/error.h"

namespace simpler::chip {

namespace {

bool has_rank_and_dtype(simpler_dtype dtype, uint32_t rank) {
  return rank >= 1 && rank <= SIMPLER_RANK_MAX && simpler_dtype_bits(dtype) != 0;
}

bool is_empty(const simpler_tensor &tensor) {
  for (uint32_t i = 0; i < tensor.rank; i++)
    if (tensor.shape[i] == 0) return true;
  return false;
}

// Bits from the first element to the end of the last one, of a view that is not empty; false on overflow.
bool compute_reach_bits(const simpler_tensor &tensor, uint64_t *bits) {
  uint64_t last = 0;
  for (uint32_t i = 0; i < tensor.rank; i++) {
    uint64_t step = 0;
    if (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &step) || __builtin_add_overflow(last, step, &last))
      return false;
  }
  uint64_t elements = 0;
  return !__builtin_add_overflow(last, uint64_t{1}, &elements) &&
         !__builtin_mul_overflow(elements, uint64_t{simpler_dtype_bits(tensor.dtype)}, bits);
}

std::string list(const uint64_t *values, uint32_t count) {
  std::string text = "[";
  for (uint32_t i = 0; i < count && i < SIMPLER_RANK_MAX; i++) text += fmt::format("{}{}", i == 0 ? "" : ", ", values[i]);
  return text + "]";
}

bool is_tag_of_memory(simpler_tag tag) {
  return tag == SIMPLER_TAG_INPUT || tag == SIMPLER_TAG_INOUT || tag == SIMPLER_TAG_OUTPUT_EXISTING ||
         tag == SIMPLER_TAG_NO_DEP;
}

bool has_broadcast(const simpler_tensor &tensor) {
  for (uint32_t i = 0; i < tensor.rank; i++)
    if (tensor.strides[i] == 0 && tensor.shape[i] > 1) return true;
  return false;
}

std::string explain_rank_and_dtype(simpler_dtype dtype, uint32_t rank) {
  if (rank == 0) return "rank is 0 (a slice or transpose that was out of range gives that)";
  if (rank > SIMPLER_RANK_MAX) return fmt::format("rank is {}, at most {} is allowed", rank, SIMPLER_RANK_MAX);
  if (simpler_dtype_bits(dtype) == 0) return fmt::format("dtype {} does not exist", dtype);
  return {};
}

}  // namespace

bool compute_contiguous_bytes(simpler_dtype dtype, uint32_t rank, const uint64_t *shape, uint64_t *bytes) {
  if (!has_rank_and_dtype(dtype, rank)) return false;
  uint64_t elements = 1;
  // A dimension of 0 must not hide that the others overflow a stride.
  bool empty = false;
  for (uint32_t i = 0; i < rank; i++) {
    if (shape[i] == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(elements, shape[i], &elements)) {
      return false;
    }
  }
  uint64_t bits = 0;
  if (__builtin_mul_overflow(elements, uint64_t{simpler_dtype_bits(dtype)}, &bits) || bits > UINT64_MAX - 7) return false;
  *bytes = empty ? 0 : (bits + 7) / 8;
  return true;
}

bool is_sound_view(const simpler_tensor &tensor, simpler_tag tag) {
  if (!has_rank_and_dtype(tensor.dtype, tensor.rank) || !is_tag_of_memory(tag)) return false;
  const auto data = reinterpret_cast<uintptr_t>(tensor.data);
  const auto start = reinterpret_cast<uintptr_t>(tensor.allocation);
  if (is_empty(tensor)) return tensor.data == nullptr || (data >= start && data - start <= tensor.allocation_bytes);
  if (tensor.data == nullptr || tensor.allocation == nullptr) return false;
  if (tag != SIMPLER_TAG_INPUT && has_broadcast(tensor)) return false;
  uint64_t bits = 0;
  if (!compute_reach_bits(tensor, &bits)) return false;
  const uint64_t bytes = bits / 8 + (bits % 8 != 0);
  return data >= start && data - start <= tensor.allocation_bytes && bytes <= tensor.allocation_bytes - (data - start);
}

bool is_sound_output(const simpler_tensor &tensor, uint64_t *bytes) {
  if (!has_rank_and_dtype(tensor.dtype, tensor.rank) || tensor.data != nullptr) return false;
  uint64_t stride = 1;
  for (uint32_t i = tensor.rank; i > 0; i--) {
    if (tensor.shape[i - 1] > 1 && tensor.strides[i - 1] != stride) return false;
    if (tensor.shape[i - 1] != 0 && __builtin_mul_overflow(stride, tensor.shape[i - 1], &stride)) return false;
    if (tensor.shape[i - 1] == 0) break;  // empty: the outer strides mean nothing
  }
  return compute_contiguous_bytes(tensor.dtype, tensor.rank, tensor.shape, bytes);
}

std::string explain_view(const simpler_tensor &tensor, simpler_tag tag) {
  if (!is_tag_of_memory(tag)) return fmt::format("tag {} does not exist", tag);
  if (std::string text = explain_rank_and_dtype(tensor.dtype, tensor.rank); !text.empty()) return text;
  const std::string layout =
      fmt::format("shape {} with strides {}", list(tensor.shape, tensor.rank), list(tensor.strides, tensor.rank));
  if (tensor.data == nullptr && !is_empty(tensor)) return "it has no memory (data is NULL): only an OUTPUT may come without";
  if (tensor.allocation == nullptr && !is_empty(tensor)) return "its allocation is NULL";
  if (tag != SIMPLER_TAG_INPUT && has_broadcast(tensor))
    return fmt::format("{}: a stride of 0 is allowed as INPUT only", layout);
  uint64_t bits = 0;
  if (!is_empty(tensor) && !compute_reach_bits(tensor, &bits)) return fmt::format("{} overflows 64 bits", layout);
  const auto data = reinterpret_cast<uintptr_t>(tensor.data);
  const auto start = reinterpret_cast<uintptr_t>(tensor.allocation);
  if (data < start) return "it starts before its allocation";
  return fmt::format("{} reaches bytes {} to {} of an allocation of {} bytes", layout, data - start,
                     data - start + (bits + 7) / 8, tensor.allocation_bytes);
}

std::string explain_output(const simpler_tensor &tensor) {
  if (std::string text = explain_rank_and_dtype(tensor.dtype, tensor.rank); !text.empty()) return text;
  if (tensor.data != nullptr)
    return "it has memory already: an OUTPUT is allocated by the runtime; OUTPUT_EXISTING is for memory that exists";
  uint64_t bytes = 0;
  if (!compute_contiguous_bytes(tensor.dtype, tensor.rank, tensor.shape, &bytes))
    return fmt::format("shape {} overflows 64 bits", list(tensor.shape, tensor.rank));
  return fmt::format("shape {} with strides {} is not contiguous, as an OUTPUT must be (use simpler_tensor_make)",
                     list(tensor.shape, tensor.rank), list(tensor.strides, tensor.rank));
}

}  // namespace simpler::chip
