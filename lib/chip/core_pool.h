// Which simulated cores are free. A carrier claims a core before it dispatches to it, keeps it while it runs one task after the other of
// that type, and gives it back when it changes the type, runs out of work or is asked to (`wanted`).
//
// Threads: any. Each core has a claim word on a cache line of its own, so a carrier that takes the core it had last touches no
// line that others write. `wanted` is one shared line that is written only when cores are short.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "chip/geometry.h"

namespace simpler::chip {

inline constexpr uint32_t kNoCore = UINT32_MAX;

class CorePool {
 public:
  explicit CorePool(const Geometry &geometry);

  // Claims a free core of the type, core `preferred` first; kNoCore when all are taken.
  uint32_t claim(simpler_core_type type, uint32_t preferred);
  void release(uint32_t core);
  // Whether some core of the type is free now. A hint.
  bool has_free(simpler_core_type type) const;

 private:
  struct alignas(64) Claim {
    // 1: held. A claim acquires what the last holder's release published (the state of the register block).
    std::atomic<uint32_t> held{0};
  };
  bool try_claim(uint32_t core);

  const Geometry geometry_;
  std::unique_ptr<Claim[]> claims_;
};

}  // namespace simpler::chip
