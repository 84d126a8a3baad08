#include "chip/element.h"

#include <bit>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

namespace simpler::chip {

namespace {

// A small floating-point format with a sign bit on top. Sources: IEEE 754 binary16; bfloat16; OCP 8-bit floating point (E4M3, which has
// no infinity); OCP microscaling formats (E2M1, which has neither infinity nor NaN).
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  uint32_t max;       // code of the largest finite number
  uint32_t overflow;  // code of what is larger: infinity, else NaN, else the largest
  uint32_t nan;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
};
constexpr SmallFloat kFloat16 = {5, 10, 0x7bff, 0x7c00, 0x7e00};
constexpr SmallFloat kBfloat16 = {8, 7, 0x7f7f, 0x7f80, 0x7fc0};
constexpr SmallFloat kE4m3fn = {4, 3, 0x7e, 0x7f, 0x7f};
constexpr SmallFloat kE2m1 = {2, 1, 0x7, 0x7, 0x7};

float decode(const SmallFloat &format, uint32_t code) {
  const bool negative = (code & format.sign()) != 0;
  const uint32_t magnitude = code & (format.sign() - 1);
  const uint32_t mantissa = magnitude & ((1u << format.mantissa_bits) - 1);
  const int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  double value = 0;
  if (magnitude > format.max) {
    value = magnitude == format.overflow && format.overflow != format.nan ? HUGE_VAL : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - format.bias() - format.mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1u << format.mantissa_bits), exponent - format.bias() - format.mantissa_bits);
  }
  return static_cast<float>(negative ? -value : value);
}

uint32_t encode(const SmallFloat &format, float value) {
  if (std::isnan(value)) return format.nan;
  const uint32_t sign = std::signbit(value) ? format.sign() : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude == 0) return sign;
  if (std::isinf(value)) return sign | format.overflow;
  const int exponent = std::max(std::ilogb(magnitude), 1 - format.bias());
  // In units of the last place; nearbyint rounds to nearest, ties to even, and may carry into the exponent.
  const auto units = static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
  const int field = exponent + format.bias();
  if (field > (1 << format.exponent_bits)) return sign | format.overflow;
  // A subnormal has field 1 and no hidden bit: the sum below is right for both.
  const uint64_t code = (static_cast<uint64_t>(field - 1) << format.mantissa_bits) + units;
  return sign | (code > format.max ? format.overflow : static_cast<uint32_t>(code));
}

// Powers of two from 2^-127 on, 0xff is NaN; neither sign nor zero.
float decode_e8m0(uint8_t code) { return code == 0xff ? NAN : std::ldexp(1.0f, static_cast<int>(code) - 127); }
uint8_t encode_e8m0(float value) {
  if (std::isnan(value) || std::isinf(value) || value < 0) return 0xff;
  if (value == 0) return 0;
  int exponent = 0;
  const float fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  const int power = fraction > 0.75f ? exponent : exponent - 1;
  return static_cast<uint8_t>(power < -127 ? 0 : power > 127 ? 0xff : power + 127);
}

template <class T>
T load(const void *from) {
  T value;
  memcpy(&value, from, sizeof(value));
  return value;
}
template <class T>
void store(void *to, uint64_t word) {
  const T value = static_cast<T>(word);
  memcpy(to, &value, sizeof(value));
}

enum class Kind {
  kSigned,
  kUnsigned,
  kFloat,
  kDouble
};
Kind kind_of(simpler_dtype dtype) {
  switch (dtype) {
    case SIMPLER_DTYPE_INT8:
    case SIMPLER_DTYPE_INT16:
    case SIMPLER_DTYPE_INT32:
    case SIMPLER_DTYPE_INT64:
      return Kind::kSigned;
    case SIMPLER_DTYPE_FLOAT64:
      return Kind::kDouble;
    default:
      return dtype >= SIMPLER_DTYPE_FLOAT16 ? Kind::kFloat : Kind::kUnsigned;
  }
}

template <class T>
bool holds(T a, simpler_compare compare, T b) {
  switch (compare) {
    case SIMPLER_COMPARE_EQ:
      return a == b;
    case SIMPLER_COMPARE_NE:
      return a != b;
    case SIMPLER_COMPARE_LT:
      return a < b;
    case SIMPLER_COMPARE_LE:
      return a <= b;
    case SIMPLER_COMPARE_GT:
      return a > b;
    default:
      return a >= b;
  }
}

}  // namespace

bool locate_element(const simpler_tensor &view, const uint64_t *index, ElementPlace &place) {
  uint64_t element = 0;
  for (uint32_t i = 0; i < view.rank; i++) {
    if (index[i] >= view.shape[i]) return false;
    element += index[i] * view.strides[i];
  }
  const uint64_t bit = element * simpler_dtype_bits(view.dtype);
  place.byte = static_cast<char *>(view.data) + bit / 8;
  place.is_high_half = bit % 8 != 0;
  return true;
}

std::string explain_index(const simpler_tensor &view, const uint64_t *index) {
  for (uint32_t i = 0; i < view.rank; i++)
    if (index[i] >= view.shape[i])
      return fmt::format("index[{}] is {}, the tensor has {} elements in that dimension", i, index[i], view.shape[i]);
  return "";
}

uint64_t load_element(const ElementPlace &place, simpler_dtype dtype) {
  switch (dtype) {
    case SIMPLER_DTYPE_INT8:
      return static_cast<uint64_t>(int64_t{load<int8_t>(place.byte)});
    case SIMPLER_DTYPE_INT16:
      return static_cast<uint64_t>(int64_t{load<int16_t>(place.byte)});
    case SIMPLER_DTYPE_INT32:
      return static_cast<uint64_t>(int64_t{load<int32_t>(place.byte)});
    case SIMPLER_DTYPE_UINT16:
      return load<uint16_t>(place.byte);
    case SIMPLER_DTYPE_UINT32:
    case SIMPLER_DTYPE_FLOAT32:
      return load<uint32_t>(place.byte);
    case SIMPLER_DTYPE_INT64:
    case SIMPLER_DTYPE_UINT64:
    case SIMPLER_DTYPE_FLOAT64:
      return load<uint64_t>(place.byte);
    case SIMPLER_DTYPE_FLOAT16:
      return simpler_scalar_from_f32(decode(kFloat16, load<uint16_t>(place.byte)));
    case SIMPLER_DTYPE_BFLOAT16:
      return simpler_scalar_from_f32(decode(kBfloat16, load<uint16_t>(place.byte)));
    case SIMPLER_DTYPE_FLOAT8_E4M3FN:
      return simpler_scalar_from_f32(decode(kE4m3fn, load<uint8_t>(place.byte)));
    case SIMPLER_DTYPE_FLOAT8_E8M0:
      return simpler_scalar_from_f32(decode_e8m0(load<uint8_t>(place.byte)));
    case SIMPLER_DTYPE_FLOAT4_E2M1:
      return simpler_scalar_from_f32(decode(kE2m1, load<uint8_t>(place.byte) >> (place.is_high_half ? 4 : 0) & 0xfu));
    default:  // bool, uint8
      return load<uint8_t>(place.byte);
  }
}

void store_element(const ElementPlace &place, simpler_dtype dtype, uint64_t word) {
  const float number = simpler_scalar_to_f32(word);
  switch (dtype) {
    case SIMPLER_DTYPE_BOOL:
      return store<uint8_t>(place.byte, word != 0 ? 1 : 0);
    case SIMPLER_DTYPE_INT16:
    case SIMPLER_DTYPE_UINT16:
      return store<uint16_t>(place.byte, word);
    case SIMPLER_DTYPE_INT32:
    case SIMPLER_DTYPE_UINT32:
    case SIMPLER_DTYPE_FLOAT32:
      return store<uint32_t>(place.byte, word);
    case SIMPLER_DTYPE_INT64:
    case SIMPLER_DTYPE_UINT64:
    case SIMPLER_DTYPE_FLOAT64:
      return store<uint64_t>(place.byte, word);
    case SIMPLER_DTYPE_FLOAT16:
      return store<uint16_t>(place.byte, encode(kFloat16, number));
    case SIMPLER_DTYPE_BFLOAT16:
      return store<uint16_t>(place.byte, encode(kBfloat16, number));
    case SIMPLER_DTYPE_FLOAT8_E4M3FN:
      return store<uint8_t>(place.byte, encode(kE4m3fn, number));
    case SIMPLER_DTYPE_FLOAT8_E8M0:
      return store<uint8_t>(place.byte, encode_e8m0(number));
    case SIMPLER_DTYPE_FLOAT4_E2M1: {
      const uint32_t shift = place.is_high_half ? 4 : 0;
      const uint32_t other = load<uint8_t>(place.byte) & (0xf0u >> shift);
      return store<uint8_t>(place.byte, other | encode(kE2m1, number) << shift);
    }
    default:  // int8, uint8
      return store<uint8_t>(place.byte, word);
  }
}

bool compare_words(uint64_t a, simpler_compare compare, uint64_t b, simpler_dtype dtype) {
  switch (kind_of(dtype)) {
    case Kind::kSigned:
      return holds(static_cast<int64_t>(a), compare, static_cast<int64_t>(b));
    case Kind::kFloat:
      return holds(simpler_scalar_to_f32(a), compare, simpler_scalar_to_f32(b));
    case Kind::kDouble:
      return holds(simpler_scalar_to_f64(a), compare, simpler_scalar_to_f64(b));
    case Kind::kUnsigned:
      break;
  }
  return holds(a, compare, b);
}

}  // namespace simpler::chip
