// Whether a tensor that user code hands in makes sense: rank, dtype, tag, shape and strides in 64-bit checked arithmetic, and whether the
// view stays inside its allocation. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "simpler/device.h"

namespace simpler::chip {

// Bytes that an allocation for the contiguous shape needs; false when it overflows or rank or dtype are nonsense.
bool compute_contiguous_bytes(simpler_dtype dtype, uint32_t rank, const uint64_t *shape, uint64_t *bytes);

// The cheap test of the hot path, for a tensor that has memory: true when everything is as it should be.
bool is_sound_view(const simpler_tensor &tensor, simpler_tag tag);
// The same for an OUTPUT, whose memory is still to come: contiguous shape, no data.
bool is_sound_output(const simpler_tensor &tensor, uint64_t *bytes);

// What is wrong with a tensor that one of the two refused, with the numbers. Never empty.
std::string explain_view(const simpler_tensor &tensor, simpler_tag tag);
std::string explain_output(const simpler_tensor &tensor);

}  // namespace simpler::chip
