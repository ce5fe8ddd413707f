// Conversions of single elements, against the compiler's and against exhaustive round trips.
#include "tensor/element.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace splitq::testing {
namespace {

/// The value of an fp16 pattern, from the definition.
double fp16_value(std::uint32_t bits) {
  const int exponent = static_cast<int>((bits >> 10) & 31), mantissa = static_cast<int>(bits & 1023);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

TEST(ElementTest, Fp16HoldsEveryPattern) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Fp16 x{static_cast<std::uint16_t>(bits)};
    const double value = fp16_value(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(x)));
      EXPECT_TRUE(std::isnan(to_float(from_float<Fp16>(to_float(x)))));
    } else {
      ASSERT_EQ(static_cast<double>(to_float(x)), value);
      ASSERT_EQ(from_float<Fp16>(to_float(x)).bits, bits);
    }
  }
}

/// Halfway between two neighbours goes to the even one; a little beside goes to the nearer.
template <class T>
void expect_rounding(std::uint32_t patterns) {
  for (std::uint32_t bits = 0; bits + 1 < patterns; ++bits) {
    const T low{static_cast<std::uint16_t>(bits)}, high{static_cast<std::uint16_t>(bits + 1)};
    const double a = to_float(low), b = to_float(high);
    const auto middle = static_cast<float>(a + (b - a) / 2);       // exact in fp32
    if (static_cast<double>(middle) != a + (b - a) / 2) continue;  // below fp32's last place: bf16 subnormals
    ASSERT_EQ(from_float<T>(middle).bits, bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(from_float<T>(std::nextafter(middle, 0.0f)).bits, bits) << bits;
    ASSERT_EQ(from_float<T>(std::nextafter(middle, HUGE_VALF)).bits, bits + 1) << bits;
    ASSERT_EQ(from_float<T>(-middle).bits, (bits % 2 == 0 ? bits : bits + 1) | 0x8000u) << bits;
  }
}

TEST(ElementTest, Fp16RoundsToNearestEven) { expect_rounding<Fp16>(0x7C00); }
TEST(ElementTest, Bf16RoundsToNearestEven) { expect_rounding<Bf16>(0x7F80); }

TEST(ElementTest, Extremes) {
  EXPECT_EQ(from_float<Fp16>(65519.0f).bits, 0x7BFF);  // 65504
  EXPECT_EQ(from_float<Fp16>(65520.0f).bits, 0x7C00);  // halfway to 65536: infinity
  EXPECT_EQ(from_float<Fp16>(1e-10f).bits, 0);
  EXPECT_EQ(from_float<Fp16>(-0.0f).bits, 0x8000);
  EXPECT_EQ(from_float<Bf16>(std::numeric_limits<float>::max()).bits, 0x7F80);
  EXPECT_EQ(from_float<Bf16>(-HUGE_VALF).bits, 0xFF80);
  const float nan = std::bit_cast<float>(0x7F800001u);  // its payload lies in the bits that are cut off
  EXPECT_TRUE(std::isnan(to_float(from_float<Bf16>(nan))));
  EXPECT_TRUE(std::isnan(to_float(from_float<Fp16>(nan))));
}

}  // namespace
}  // namespace splitq::testing
