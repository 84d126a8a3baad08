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
  // True when the core was reserved meanwhile: whoever reserved it must be told.
  [[nodiscard]] bool release(uint32_t core);

  // For cohorts: nobody claims the core from now on. True when it is free; otherwise its holder's release says so.
  [[nodiscard]] bool reserve(uint32_t core);
  // A reserved core that is free becomes held.
  void occupy(uint32_t core);
  bool is_reserved(uint32_t core) const { return (claims_[core].word.load(std::memory_order_relaxed) & kReserved) != 0; }
  // Neither held nor reserved. A hint.
  bool is_free(uint32_t core) const { return claims_[core].word.load(std::memory_order_relaxed) == 0; }
  // Whether some core of the type is free now. A hint.
  bool has_free(simpler_core_type type) const;

 private:
  static constexpr uint32_t kHeld = 1;
  static constexpr uint32_t kReserved = 2;
  struct alignas(64) Claim {
    // A claim acquires what the last holder's release published (the state of the register block).
    std::atomic<uint32_t> word{0};
  };
  bool try_claim(uint32_t core);

  const Geometry geometry_;
  std::unique_ptr<Claim[]> claims_;
};

}  // namespace simpler::chip
