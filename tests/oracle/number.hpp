// The three storage formats, from their definition: sign, biased exponent, mantissa, round to nearest even.
#pragma once

#include <cstdint>

namespace oracle {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool operator==(const Format&) const = default;
  int bytes() const { return (1 + exponent_bits + mantissa_bits) / 8; }
};

inline constexpr Format kFp32{8, 23};
inline constexpr Format kFp16{5, 10};
inline constexpr Format kBf16{8, 7};

/// The nearest number that the format holds; ±infinity beyond its largest.
double round_to(Format format, double x);

std::uint32_t encode(Format format, double x);
double decode(Format format, std::uint32_t bits);

}  // namespace oracle
