// The sm80 forward: causal, windows, packed sequences, used lengths, grouped heads; large logits. Both ways of rescaling.
#include "emulated.hpp"

namespace splitq::testing {
namespace {

template <Element kElement, int kStages, Rescale kRescale, bool kPackGroup = false>
constexpr Config kBand = [] {
  Config c = small_config(kElement);
  c.banded = c.indexed = true;
  c.stages = kStages, c.rescale = kRescale, c.pack_group = kPackGroup;
  return c;
}();

template <Config kConfig>
struct Kernel {
  static constexpr Config kValue = kConfig;
};

template <class T>
class Sm80Masks : public ::testing::Test {};
using Kernels = ::testing::Types<Kernel<kBand<Element::kFp16, 1, Rescale::kConditional>>,
                                 Kernel<kBand<Element::kBf16, 2, Rescale::kConditional>>,
                                 Kernel<kBand<Element::kFp16, 2, Rescale::kEveryBlock, true>>,
                                 Kernel<kBand<Element::kBf16, 1, Rescale::kEveryBlock>>>;
TYPED_TEST_SUITE(Sm80Masks, Kernels);

TYPED_TEST(Sm80Masks, CausalAtEveryProportion) {
  for (const auto& [seqlen_q, seqlen_k] : {std::pair{70, 90}, {64, 64}, {90, 33}, {65, 1}, {1, 70}}) {
    AttentionCase c = small_case();
    c.causal = true, c.seqlen_q = seqlen_q, c.seqlen_k = seqlen_k;
    expect_kernel<TypeParam::kValue>(c);
  }
}

TYPED_TEST(Sm80Masks, Windows) {
  for (const auto& [left, right] : {std::pair{11, -1}, {20, 5}, {0, 0}, {-1, 40}}) {
    AttentionCase c = small_case();
    c.window_left = left, c.window_right = right;
    expect_kernel<TypeParam::kValue>(c);
    c.seqlen_q = 100, c.seqlen_k = 40;  // rows before and behind all keys
    expect_kernel<TypeParam::kValue>(c);
  }
}

TYPED_TEST(Sm80Masks, Sink) {
  AttentionCase c = small_case();
  c.sink = true, c.causal = true, c.seqlen_q = 90, c.seqlen_k = 40;
  expect_kernel<TypeParam::kValue>(c);
  expect_kernel<TypeParam::kValue>(c, [](oracle::Problem& pr) { pr.sink.values[1] = 200; });
  expect_kernel<TypeParam::kValue>(c, [](oracle::Problem& pr) { pr.sink.values[0] = 3e38; });
  expect_kernel<TypeParam::kValue>(
      c, [](oracle::Problem& pr) { pr.sink.values[1] = -std::numeric_limits<double>::infinity(); });
}

TYPED_TEST(Sm80Masks, GroupedHeads) {
  for (const std::int64_t seqlen_q : {1, 11, 40}) {
    AttentionCase c = small_case();
    c.heads_q = 6, c.heads_kv = 2, c.seqlen_q = seqlen_q, c.causal = true;
    expect_kernel<TypeParam::kValue>(c);
  }
}

TYPED_TEST(Sm80Masks, PackedSequences) {
  AttentionCase c = small_case();
  c.packed_q = {0, 37, 5, 0, 33}, c.packed_k = {9, 70, 0, 3, 20}, c.batch = 5;
  expect_kernel<TypeParam::kValue>(c);
  c.causal = true, c.slack_rows = 40, c.index_dtype = DType::kInt64;
  expect_kernel<TypeParam::kValue>(c);
}

TYPED_TEST(Sm80Masks, UsedLengths) {
  AttentionCase c = small_case();
  c.batch = 3, c.used_q = {3, 70, 0}, c.used_k = {90, 40, 7};
  expect_kernel<TypeParam::kValue>(c);
  c.causal = true, c.sink = true, c.used_k = {0, 33, 90};
  expect_kernel<TypeParam::kValue>(c);
}

/// Every logit near -q * k * 8 * scale: products of nearly constant vectors of 64 elements.
void all_logits_near(oracle::Problem& pr, double q, double k, double spread) {
  for (double& x : pr.q.values) x = q * (1 + spread * x);
  for (double& x : pr.k.values) x = -k * (1 + spread * x);
}

/// Below -50,000 the spacing of fp32 scores is as large as what softmax distinguishes, and a matrix instruction rounds its
/// sums in another order than the plain computation: products are exact there, and what is compared is the softmax.
TYPED_TEST(Sm80Masks, LogitsNearMinus128AndBelowMinus50000) {
  AttentionCase c = small_case();
  c.scale = 0.125;
  c.batch = 6;  // scores are noisy here, in the plain computation too: many rows show how much
  for (const bool causal : {false, true}) {
    c.causal = causal;
    expect_kernel<TypeParam::kValue>(c, [](oracle::Problem& pr) { all_logits_near(pr, 4, 4, 0.01); });
    expect_kernel<TypeParam::kValue>(c, [](oracle::Problem& pr) { all_logits_near(pr, 80, 80, 0.0); });
  }
}

/// Keys whose logits rise from tile to tile, by less and by more than what makes the maximum move.
TYPED_TEST(Sm80Masks, RisingAndFallingLogits) {
  AttentionCase c = small_case();
  c.scale = 1.0;
  for (const double step : {0.01, 0.05, 1.0, -0.05, -1.0}) {
    expect_kernel<TypeParam::kValue>(c, [&](oracle::Problem& pr) {
      for (std::int64_t row = 0; row < pr.q.shape[0]; ++row)
        for (std::int64_t h = 0; h < pr.heads_q; ++h)
          for (int d = 0; d < 64; ++d) pr.q(row, h, d) = d == 0 ? 4 : 0.125 * pr.q(row, h, d);
      for (std::int64_t row = 0; row < pr.k.shape[0]; ++row) pr.k(row, 0, 0) = step * static_cast<double>(row % 90);
    });
  }
}

TYPED_TEST(Sm80Masks, LargeRandomLogits) {
  AttentionCase c = small_case();
  c.causal = true, c.scale = 0.125;
  expect_kernel<TypeParam::kValue>(c, [](oracle::Problem& pr) {
    for (double& x : pr.q.values) x *= 16;
    for (double& x : pr.k.values) x *= 16;
  });
}

TEST(Sm80Traps, OneTokenOfLargeHalves) {
  AttentionCase c = small_case();
  c.batch = c.heads_q = c.heads_kv = c.seqlen_q = c.seqlen_k = 1;
  expect_kernel<kBand<Element::kFp16, 1, Rescale::kConditional>>(c, [](oracle::Problem& pr) {
    for (int d = 0; d < 64; ++d) {
      pr.q(0, 0, d) = 60000 - 32 * d;
      pr.k(0, 0, d) = 50016 + 32 * d;
      pr.v(0, 0, d) = d % 2 ? 65504 : -61440;
    }
  });
}

/// Many interleavings of the two pipelines.
TEST(Sm80Threads, Interleavings) {
  AttentionCase c = small_case();
  c.dtype = DType::kFp16, c.backward = false, c.batch = 1, c.causal = true;
  const oracle::Problem inputs = make_inputs(c, next_seed());
  const auto check = [&](const Call& call) { EXPECT_TRUE(accurate(c, inputs, run(c, inputs, call))); };
  check([](const AttentionCase&, CallTensors& t) { emulate<kBand<Element::kFp16, 1, Rescale::kConditional>>(t, 4); });
  check([](const AttentionCase&, CallTensors& t) {
    emulate<kBand<Element::kFp16, 2, Rescale::kEveryBlock, true>>(t, 4);
  });
}

}  // namespace
}  // namespace splitq::testing
