#include "base/digest.h"

#include <nettle/sha2.h>

namespace simpler {

struct Sha256::State {
  sha256_ctx context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) { sha256_init(&state_->context); }
Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  sha256_update(&state_->context, bytes.size(), reinterpret_cast<const uint8_t *>(bytes.data()));
}

void Sha256::update_u64(uint64_t value) {
  uint8_t bytes[8];
  for (unsigned i = 0; i < 8; i++) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
  sha256_update(&state_->context, sizeof bytes, bytes);
}

void Sha256::update_text(std::string_view text) {
  update_u64(text.size());
  update(std::as_bytes(std::span(text)));
}

Digest Sha256::finish() {
  Digest digest;
  sha256_digest(&state_->context, digest.size(), digest.data());
  return digest;
}

std::string to_hex(const Digest &digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace simpler
