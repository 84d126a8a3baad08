// How the tensors of one task get into GM and back.
//
// Tensors in buffers are in GM already. Those by pointer are copied: INPUT and INOUT in, INOUT and OUTPUT_EXISTING back. Each
// gets a dense place of its own in GM, whatever its strides are in host memory; tensors that overlap in host memory share one
// place that mirrors their common bytes, so that they are the same memory on the chip, too.
//
// A plan is made and used by one thread at a time. The memory of the host is touched by copy_in and copy_out only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "control/link.h"
#include "simpler.h"

namespace simpler::host {

// Where a buffer lies, for arguments that name one.
struct BufferPlace {
  uint64_t gm_offset = 0;
  uint64_t bytes = 0;
};

class StagingPlan {
 public:
  // `places[i]` belongs to tensors[i] where that names a buffer. Throws INVALID_ARGUMENT naming argument, value and remedy.
  StagingPlan(std::span<const simpler_tensor_arg> tensors, std::span<const BufferPlace> places);

  // Bytes of GM that have to be allocated for the staged tensors, in one piece; 0: none.
  uint64_t bytes() const { return bytes_; }
  // Bytes that are copied on the way in and back, for statistics.
  uint64_t bytes_in() const { return bytes_in_; }
  uint64_t bytes_out() const { return bytes_out_; }

  // The arguments as the chip gets them, with the staged ones placed from `gm_offset` on.
  std::vector<control::TensorRecord> place(uint64_t gm_offset) const;
  // Copies inputs, and clears what is only written.
  void copy_in(std::byte *gm, uint64_t gm_offset) const;
  void copy_out(const std::byte *gm, uint64_t gm_offset) const;

 private:
  struct Tensor {
    simpler_tensor_arg argument;
    bool staged = false;
    BufferPlace buffer;         // if not staged
    uint64_t offset = 0;        // of the first element, from the start of the plan's piece of GM
    uint64_t block_offset = 0;  // of the place that it lies in
    uint64_t block_bytes = 0;
    uint64_t strides[SIMPLER_RANK_MAX] = {};  // on the chip, in elements
  };
  void arrange();

  std::vector<Tensor> tensors_;
  uint64_t bytes_ = 0;
  uint64_t bytes_in_ = 0;
  uint64_t bytes_out_ = 0;
};

}  // namespace simpler::host
