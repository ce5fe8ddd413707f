#include "oracle/number.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace oracle {
namespace {

int bias(Format f) { return (1 << (f.exponent_bits - 1)) - 1; }
std::uint32_t exponent_mask(Format f) { return (1u << f.exponent_bits) - 1; }

}  // namespace

double round_to(Format format, double x) {
  if (x == 0.0 || !std::isfinite(x)) return x;
  // The spacing of the format's numbers around x; below the smallest normal it stays constant.
  const int exponent = std::max(std::ilogb(x), 1 - bias(format));
  const double spacing = std::ldexp(1.0, exponent - format.mantissa_bits);
  const double rounded = std::nearbyint(x / spacing) * spacing;
  const double beyond = std::ldexp(1.0, bias(format) + 1);
  return std::abs(rounded) < beyond ? rounded : std::copysign(std::numeric_limits<double>::infinity(), x);
}

std::uint32_t encode(Format format, double x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(std::signbit(x))
                             << (format.exponent_bits + format.mantissa_bits);
  const std::uint32_t infinity = exponent_mask(format) << format.mantissa_bits;
  if (std::isnan(x)) return sign | infinity | 1u << (format.mantissa_bits - 1);
  const double r = std::abs(round_to(format, x));
  if (std::isinf(r)) return sign | infinity;
  if (r == 0.0) return sign;
  const int exponent = std::max(std::ilogb(r), 1 - bias(format));
  const auto mantissa = static_cast<std::uint32_t>(std::ldexp(r, format.mantissa_bits - exponent));
  // A subnormal number has no implicit leading one and the exponent field 0.
  const std::uint32_t leading = 1u << format.mantissa_bits;
  if (mantissa < leading) return sign | mantissa;
  return sign | static_cast<std::uint32_t>(exponent + bias(format)) << format.mantissa_bits | (mantissa - leading);
}

double decode(Format format, std::uint32_t bits) {
  const std::uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const std::uint32_t exponent = bits >> format.mantissa_bits & exponent_mask(format);
  const double sign = bits >> (format.exponent_bits + format.mantissa_bits) & 1u ? -1.0 : 1.0;
  if (exponent == exponent_mask(format))
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  const bool normal = exponent != 0;
  const double significand = mantissa + (normal ? std::ldexp(1.0, format.mantissa_bits) : 0.0);
  const int scale = (normal ? static_cast<int>(exponent) : 1) - bias(format) - format.mantissa_bits;
  return sign * std::ldexp(significand, scale);
}

}  // namespace oracle
