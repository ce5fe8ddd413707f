// One element of a floating-point tensor: storage types, and conversion to and from fp32.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "splitq/splitq.hpp"

namespace splitq {

/// IEEE 754 binary16 and bfloat16, as stored.
struct Fp16 {
  std::uint16_t bits;
};
struct Bf16 {
  std::uint16_t bits;
};

inline float to_float(float x) { return x; }

inline float to_float(Bf16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }

inline float to_float(Fp16 x) {
  constexpr std::uint32_t kExponentBias = 127 - 15;
  const std::uint32_t sign = (x.bits & 0x8000u) << 16, exponent = (x.bits >> 10) & 0x1Fu, mantissa = x.bits & 0x3FFu;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));  // infinity, NaN
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + kExponentBias) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // subnormal, exact
  return sign != 0 ? -magnitude : magnitude;
}

/// Rounded to nearest, ties to even, as the hardware does.
template <class T>
T from_float(float x);

template <>
inline float from_float<float>(float x) {
  return x;
}

template <>
inline Bf16 from_float<Bf16>(float x) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if (x != x)
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};  // quiet: rounding may not carry it to infinity
  bits += 0x7FFFu + ((bits >> 16) & 1u);
  return {static_cast<std::uint16_t>(bits >> 16)};
}

template <>
inline Fp16 from_float<Fp16>(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x), magnitude = bits & 0x7FFFFFFFu;
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  std::uint32_t half = 0;
  if (magnitude > 0x7F800000u) {
    half = 0x7E00u | ((magnitude >> 13) & 0x3FFu);  // NaN
  } else if (magnitude >= 0x477FF000u) {
    half = 0x7C00u;  // rounds beyond 65504
  } else if (magnitude >= 0x38800000u) {
    half = (magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
  } else {
    // Subnormal: adding 0.5 puts the last place of fp16 in the last place of fp32, and the addition rounds.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
  }
  return {static_cast<std::uint16_t>(sign | half)};
}

/// Calls f with a value of the storage type: f(float{}), f(Fp16{}) or f(Bf16{}).
template <class F>
decltype(auto) with_storage_type(DType dtype, F&& f) {
  if (dtype == DType::kFp16) return f(Fp16{});
  if (dtype == DType::kBf16) return f(Bf16{});
  return f(float{});
}

inline float to_float(DType dtype, const void* element) {
  return with_storage_type(dtype, [&](auto x) {
    std::memcpy(&x, element, sizeof x);
    return to_float(x);
  });
}

inline void store(DType dtype, void* element, float value) {
  with_storage_type(dtype, [&](auto x) {
    x = from_float<decltype(x)>(value);
    std::memcpy(element, &x, sizeof x);
  });
}

}  // namespace splitq
