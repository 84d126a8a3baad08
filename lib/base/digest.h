// SHA-256 (FIPS 180-4), by nettle: the identity of callables.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace simpler {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256 &) = delete;
  Sha256 &operator=(const Sha256 &) = delete;

  void update(std::span<const std::byte> bytes);
  void update_u64(uint64_t value);          // little-endian
  void update_text(std::string_view text);  // length, then bytes: no two sequences of texts collide
  Digest finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string to_hex(const Digest &digest);

}  // namespace simpler
