#include "oracle/number.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "oracle/philox.hpp"

namespace oracle {
namespace {

TEST(OracleNumber, Fp32EqualsTheHardwares) {
  for (std::uint64_t i = 0; i < (1u << 20); ++i) {
    const auto bits = static_cast<std::uint32_t>(i * 4093 + 17);
    const float x = std::bit_cast<float>(bits);
    if (std::isnan(x)) continue;
    ASSERT_EQ(decode(kFp32, bits), static_cast<double>(x));
    ASSERT_EQ(encode(kFp32, x), bits);
    const double between = static_cast<double>(x) * (1 + 0x1.3p-25);
    ASSERT_EQ(encode(kFp32, between), std::bit_cast<std::uint32_t>(static_cast<float>(between)));
  }
}

TEST(OracleNumber, SixteenBitsSurviveTheRoundTrip) {
  for (const Format format : {kFp16, kBf16}) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const double x = decode(format, bits);
      if (std::isnan(x)) continue;
      ASSERT_EQ(encode(format, x), bits) << x;
      ASSERT_EQ(round_to(format, x), x);
    }
  }
}

TEST(OracleNumber, KnownValues) {
  EXPECT_EQ(encode(kFp16, 1.0), 0x3C00u);
  EXPECT_EQ(encode(kFp16, 65504.0), 0x7BFFu);
  EXPECT_EQ(encode(kFp16, 65519.0), 0x7BFFu);
  EXPECT_EQ(encode(kFp16, 65520.0), 0x7C00u) << "half way to the next: infinity";
  EXPECT_EQ(encode(kFp16, 0x1p-24), 0x0001u);
  EXPECT_EQ(encode(kFp16, 0x1p-25), 0x0000u) << "half of the smallest: to even";
  EXPECT_EQ(encode(kBf16, 1.0), 0x3F80u);
  EXPECT_EQ(encode(kBf16, -3.140625), 0xC049u);
  EXPECT_EQ(encode(kBf16, 1.0 + 0x1p-8), 0x3F80u) << "a tie, to even";
  EXPECT_EQ(encode(kBf16, 1.0 + 0x1.8p-7), 0x3F82u) << "a tie, to even";
  EXPECT_TRUE(std::isnan(decode(kBf16, 0xFFFF)));
}

// Known answers that come with Random123.
TEST(OraclePhilox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Philox4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Philox4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Philox4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

}  // namespace
}  // namespace oracle
