#include "chip/core_pool.h"

#include "base/error.h"

namespace simpler::chip {

CorePool::CorePool(const Geometry &geometry) : geometry_(geometry), claims_(std::make_unique<Claim[]>(geometry.cores())) {}

bool CorePool::try_claim(uint32_t core) {
  std::atomic<uint32_t> &held = claims_[core].held;
  uint32_t free = 0;
  // acquire: pairs with the release of the last holder. The load keeps a scan from taking lines of busy cores for itself.
  return held.load(std::memory_order_relaxed) == 0 && held.compare_exchange_strong(free, 1, std::memory_order_acquire);
}

uint32_t CorePool::claim(simpler_core_type type, uint32_t preferred) {
  if (preferred != kNoCore && try_claim(preferred)) return preferred;
  const uint32_t cores = geometry_.cores(type);
  for (uint32_t i = 0; i < cores; i++) {
    const uint32_t core = geometry_.index_of(type, i);
    if (try_claim(core)) return core;
  }
  return kNoCore;
}

void CorePool::release(uint32_t core) {
  // release: the register block's state goes to the next holder. seq_cst: who gives a core back looks afterwards whether a task
  // waits for one (scheduler.cpp), while who lets a task wait looks afterwards whether a core is free.
  claims_[core].held.store(0, std::memory_order_seq_cst);
}

bool CorePool::has_free(simpler_core_type type) const {
  const uint32_t cores = geometry_.cores(type);
  for (uint32_t i = 0; i < cores; i++)
    if (claims_[geometry_.index_of(type, i)].held.load(std::memory_order_seq_cst) == 0) return true;
  return false;
}

}  // namespace simpler::chip
