#include "chip/core_pool.h"

#include "base/error.h"

namespace simpler::chip {

CorePool::CorePool(const Geometry &geometry) : geometry_(geometry), claims_(std::make_unique<Claim[]>(geometry.cores())) {}

bool CorePool::try_claim(uint32_t core) {
  std::atomic<uint32_t> &word = claims_[core].word;
  uint32_t free = 0;
  // acquire: pairs with the release of the last holder. The load keeps a scan from taking lines of busy cores for itself.
  return word.load(std::memory_order_relaxed) == 0 && word.compare_exchange_strong(free, kHeld, std::memory_order_acquire);
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

bool CorePool::release(uint32_t core) {
  // release: the register block's state goes to the next holder. seq_cst: who gives a core back looks afterwards whether a task
  // waits for one (scheduler.cpp), while who lets a task wait looks afterwards whether a core is free.
  return (claims_[core].word.fetch_and(~kHeld, std::memory_order_seq_cst) & kReserved) != 0;
}

bool CorePool::reserve(uint32_t core) {
  // acquire: as a claim. With the read-modify-write of release, exactly one of the two sees the other.
  return (claims_[core].word.fetch_or(kReserved, std::memory_order_acq_rel) & kHeld) == 0;
}

void CorePool::occupy(uint32_t core) {
  // acquire: the holder's release may have come after the reservation.
  claims_[core].word.exchange(kHeld, std::memory_order_acq_rel);
}

bool CorePool::has_free(simpler_core_type type) const {
  const uint32_t cores = geometry_.cores(type);
  for (uint32_t i = 0; i < cores; i++)
    if (claims_[geometry_.index_of(type, i)].word.load(std::memory_order_seq_cst) == 0) return true;
  return false;
}

}  // namespace simpler::chip
