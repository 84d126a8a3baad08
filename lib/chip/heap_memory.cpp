#include "chip/heap_memory.h"

#include <cerrno>
#include <sys/mman.h>

#include "base/error.h"

namespace simpler::chip {

HeapMemory::~HeapMemory() {
  for (const auto &[at, bytes] : mappings_) munmap(at, static_cast<size_t>(bytes));
}

std::byte *HeapMemory::map(uint32_t depth, uint64_t bytes) {
  mappings_.reserve(mappings_.size() + 1);
  // NORESERVE: only what is written counts against memory.
  void *at =
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    throw_system_error(errno, fmt::format("mapping {} bytes for the heap ring of scope depth {}", bytes, depth));
  mappings_.emplace_back(static_cast<std::byte *>(at), bytes);
  return mappings_.back().first;
}

}  // namespace simpler::chip
