#include <gtest/gtest.h>

#include <cmath>

#include "kvcache/reference.hpp"

namespace splitq::testing {
namespace {

constexpr std::int64_t kB = 2, kS = 3, kH = 3, kD = 10, kPositions = 9;

struct RotaryCase {
  DType dtype, table_dtype;
  bool interleaved;
  std::int64_t half;
  Order order;
  std::int64_t gap;
};

class RotaryTest : public ::testing::TestWithParam<RotaryCase> {};

TEST_P(RotaryTest, AgreesWithTheDefinition) {
  const RotaryCase& c = GetParam();
  Array x(c.dtype, {kB, kS, kH, kD}, c.order, c.gap), out(c.dtype, {kB, kS, kH, kD}, Order::kRowMajor, c.gap);
  Array cos(c.table_dtype, {kPositions, c.half}, c.order),
      sin(c.table_dtype, {kPositions, c.half}, Order::kRowMajor, 1);
  Array offsets(DType::kInt64, {kB}, c.order);
  x.fill_random(1), cos.fill_random(2), sin.fill_random(3), offsets.fill({6, 0});
  apply_rotary(x.view(), out.view(), {cos.view(), sin.view(), c.interleaved}, offsets.view());
  out.for_each([&](const Array::Index& i) {
    const std::int64_t position = (i[0] == 0 ? 6 : 0) + i[1];
    ASSERT_NEAR(out.get(i), rotated(x, i, cos, sin, c.interleaved, position), rotary_tolerance(c.dtype));
  });

  // In place, and without offsets.
  Array expected(c.dtype, {kB, kS, kH, kD});
  const Rotary rotary{cos.view(), sin.view(), c.interleaved};
  apply_rotary(x.view(), expected.view(), rotary);
  apply_rotary(x.view(), x.view(), rotary);
  x.for_each([&](const Array::Index& i) { ASSERT_EQ(x.get(i), expected.get(i)); });
}

INSTANTIATE_TEST_SUITE_P(
    All, RotaryTest,
    ::testing::Values(RotaryCase{DType::kFp32, DType::kFp32, false, 5, Order::kRowMajor, 0},
                      RotaryCase{DType::kFp32, DType::kFp32, true, 5, Order::kReversed, 2},
                      RotaryCase{DType::kFp16, DType::kFp32, false, 3, Order::kLastDimOutermost, 1},
                      RotaryCase{DType::kFp16, DType::kFp16, true, 4, Order::kRowMajor, 3},
                      RotaryCase{DType::kBf16, DType::kFp32, true, 1, Order::kReversed, 0},
                      RotaryCase{DType::kBf16, DType::kBf16, false, 4, Order::kLastDimOutermost, 0}));

TEST(RotaryRefusalTest, NamesTheArgument) {
  Array x(DType::kFp32, {kB, kS, kH, kD}), out(DType::kFp32, {kB, kS, kH, kD});
  Array cos(DType::kFp32, {kPositions, 4}), sin(DType::kFp32, {kPositions, 4}), offsets(DType::kInt32, {kB});
  x.fill_random(1), cos.fill_random(2), sin.fill_random(3), offsets.fill({0, 6});
  auto message = [&](const TensorView& to, const Rotary& rotary, const TensorView& at = {}) -> std::string {
    const auto before = out.memory();
    try {
      apply_rotary(x.view(), to, rotary, at);
    } catch (const Error& error) {
      EXPECT_EQ(out.memory(), before) << "written before it was refused";
      return error.what();
    }
    return "";
  };
  const Rotary good{cos.view(), sin.view()};
  EXPECT_EQ(message({}, good), "out: not given; must be given");
  EXPECT_EQ(message(out.view(), {}), "cos: not given; must come with the other of cos and sin");
  EXPECT_EQ(message(out.view(), {cos.view(), Array(DType::kFp32, {kPositions, 3}).view()}),
            "sin: shape (9, 3); must be (positions, R/2) with positions = 9 as in cos, R/2 = 4 as in cos");
  EXPECT_EQ(
      message(out.view(), {Array(DType::kFp32, {kPositions, 6}).view(), Array(DType::kFp32, {kPositions, 6}).view()}),
      "cos: shape (9, 6); must have at most 5 columns, half the head size 10 of x");
  EXPECT_EQ(message(out.view(), {Array(DType::kBf16, {kPositions, 4}).view(), sin.view()}),
            "cos: type bf16; must be fp32");
  EXPECT_EQ(message(Array(DType::kFp16, {kB, kS, kH, kD}).view(), good), "out: type fp16; must be fp32, the type of x");
  offsets.fill({0, 7});
  EXPECT_EQ(message(out.view(), good, offsets.view()),
            "offsets[1]: 7, with 3 tokens behind it; must be from 0 to 6, as cos and sin have 9 positions");
  offsets.fill({-1, 0});
  EXPECT_EQ(message(out.view(), good, offsets.view()),
            "offsets[0]: -1, with 3 tokens behind it; must be from 0 to 6, as cos and sin have 9 positions");
  TensorView shifted = x.view();
  shifted.data = static_cast<float*>(shifted.data) + 1;
  EXPECT_EQ(message(shifted, good), "out: shares memory with x; must have memory of its own, as it is written");
  TensorView elsewhere = x.view();
  elsewhere.device = {DeviceKind::kCuda, 0};
  EXPECT_EQ(message(elsewhere, good), "x: on cpu; must be on cuda:0, where out is");
}

}  // namespace
}  // namespace splitq::testing
