// Where kernels wait for words in shared memory (device.h, "signals"): a page of doorbells at the end of GM, so that all chips share it.
//
// A word's doorbell is found by a hash of its address, or, for words in GM, of its offset there, as each process maps GM elsewhere. Several
// words may share a bell: a needless wake-up, no more. `any` is rung with each of them.
//
// Threads: any, of any process that maps the page.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "base/wait.h"

namespace simpler {

class Signals {
 public:
  static constexpr uint64_t kPageBytes = 4096;

  Signals() = default;
  // `gm`: all of GM with the page, zero-filled by whoever made it, at its end.
  explicit Signals(std::span<std::byte> gm)
      : gm_(reinterpret_cast<uintptr_t>(gm.data())),
        gm_bytes_(gm.size()),
        page_(std::launder(reinterpret_cast<Page *>(gm.data() + gm.size() - kPageBytes))) {}

  // seq_cst: orders what the kernel wrote before, and pairs with the sleeper's announcement (wait.h).
  void set(uint64_t *word, uint64_t value) const {
    std::atomic_ref(*word).store(value, std::memory_order_seq_cst);
    ring(word);
  }
  uint64_t add(uint64_t *word, uint64_t value) const {
    const uint64_t before = std::atomic_ref(*word).fetch_add(value, std::memory_order_seq_cst);
    ring(word);
    return before;
  }
  static uint64_t load(const uint64_t *word) {
    return std::atomic_ref(*const_cast<uint64_t *>(word)).load(std::memory_order_seq_cst);
  }

  Doorbell &bell(const uint64_t *word) const {
    const auto address = reinterpret_cast<uintptr_t>(word);
    const uint64_t key = address - gm_ < gm_bytes_ ? address - gm_ : address;
    return page_->bells[(key / sizeof(uint64_t) * 0x9E3779B97F4A7C15u) >> (64 - kBellBits)];
  }
  Doorbell &any() const { return page_->any; }

 private:
  static constexpr unsigned kBellBits = 8;
  struct Page {
    Doorbell any;
    alignas(64) Doorbell bells[1u << kBellBits];
  };
  static_assert(sizeof(Page) <= kPageBytes);

  void ring(const uint64_t *word) const {
    bell(word).ring();
    page_->any.ring();
  }

  uintptr_t gm_ = 0;
  uint64_t gm_bytes_ = 0;
  Page *page_ = nullptr;
};

}  // namespace simpler
