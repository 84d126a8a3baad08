// Memory for the heap rings: one private, anonymous, sparse mapping per scope depth that allocates anything. Zero until written.
// Asked for by the engine's submitter thread; freed with the owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace simpler::chip {

class HeapMemory {
 public:
  HeapMemory() = default;
  HeapMemory(const HeapMemory &) = delete;
  HeapMemory &operator=(const HeapMemory &) = delete;
  ~HeapMemory();

  // Throws OUT_OF_MEMORY, SYSTEM_ERROR.
  std::byte *map(uint32_t depth, uint64_t bytes);

 private:
  std::vector<std::pair<std::byte *, uint64_t>> mappings_;
};

}  // namespace simpler::chip
