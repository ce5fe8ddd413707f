// Calls that other implementations are known to get wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/run_case.hpp"
#include "support/seed.hpp"

namespace splitq::testing {
namespace {

constexpr DType kDtypes[] = {DType::kFp32, DType::kFp16, DType::kBf16};

TEST(Traps, OneTokenOfLargeHalves) {
  AttentionCase c;
  c.dtype = DType::kFp16, c.batch = c.heads_q = c.heads_kv = c.seqlen_q = c.seqlen_k = 1, c.head_dim = 16;
  expect_accurate(c, [](oracle::Problem& pr) {
    // Multiples of the spacing, and gradients of ±1, keep every sum exact: dq and dk are truly 0.
    for (int d = 0; d < 16; ++d) {
      pr.q(0, 0, d) = 60000 - 32 * d;
      pr.k(0, 0, d) = 50016 + 32 * d;
      pr.v(0, 0, d) = d % 2 ? 65504 : -61440;
      pr.dout(0, 0, d) = d % 3 ? 1 : -1;
    }
  });
}

TEST(Traps, PackedGroupedHeadsWithOneTokenInAll) {
  for (const DType dtype : kDtypes) {
    AttentionCase c;
    c.dtype = dtype, c.heads_q = 21, c.heads_kv = 7, c.head_dim = 120;
    c.packed_q = c.packed_k = {0, 0, 0, 1};
    expect_accurate(c);
  }
}

TEST(Traps, HeadDim68WithEmptyKeySequences) {
  for (const DType dtype : kDtypes) {
    AttentionCase c;
    c.dtype = dtype, c.head_dim = 68, c.packed_q = {3, 1, 2, 2}, c.packed_k = {0, 2, 0, 2};
    expect_accurate(c);
    c.packed_q = c.packed_k;
    expect_accurate(c);
    c = {}, c.dtype = dtype, c.head_dim = 68, c.batch = 4, c.seqlen_q = 1, c.seqlen_k = 2, c.used_k = {0, 2, 0, 2};
    expect_accurate(c);
  }
}

TEST(Traps, MaskWhoseLastRowsAreFalse) {
  for (const DType dtype : kDtypes) {
    for (const bool sink : {false, true}) {
      AttentionCase c;
      c.dtype = dtype, c.seqlen_q = 40, c.seqlen_k = 70, c.mask = Broadcast::kFull, c.sink = sink, c.dlse = true;
      expect_accurate(c, [](oracle::Problem& pr) {
        const std::int64_t rows = pr.batch * pr.heads_q * 40;
        for (std::int64_t row = 0; row < rows; ++row)
          if (row % 40 >= 33) std::fill_n(pr.mask.values.begin() + row * 70, 70, 0.0);
      });
    }
  }
}

/// Every logit near -q * k * 8: products of nearly constant vectors of 64 elements. The `spread`, no less than the
/// spacing of the type's numbers, keeps sums inexact, as those of real tensors are.
void all_logits_near(oracle::Problem& pr, double q, double k, double spread) {
  for (double& x : pr.q.values) x = q * (1 + spread * x);
  for (double& x : pr.k.values) x = -k * (1 + spread * x);
}

double spacing(DType dtype) { return std::max(1e-4, std::ldexp(1.0, -format_of(dtype).mantissa_bits)); }

AttentionCase head_dim_64(DType dtype) {
  AttentionCase c;
  c.dtype = dtype, c.head_dim = 64, c.seqlen_q = 20, c.seqlen_k = 70;
  return c;
}

TEST(Traps, LogitsNearMinus128) {
  for (const DType dtype : kDtypes) {
    AttentionCase c = head_dim_64(dtype);
    const auto edit = [](oracle::Problem& pr) { all_logits_near(pr, 4, 4, 0.01); };
    expect_accurate(c, edit);
    c.causal = true;
    expect_accurate(c, edit);
    c.seqlen_q = 1;
    expect_accurate(c, edit);
  }
}

TEST(Traps, LogitsBelowMinus50000) {
  for (const DType dtype : kDtypes) {
    AttentionCase c = head_dim_64(dtype);
    c.backward = false;
    const auto edit = [&](oracle::Problem& pr) { all_logits_near(pr, 80, 80, spacing(dtype)); };
    expect_accurate(c, edit);
    c.causal = true;
    expect_accurate(c, edit);
    c.seqlen_q = 1;
    expect_accurate(c, edit);
  }
}

/// Products that the plain computation makes without any rounding: a factor rounded into q on the way would show.
TEST(Traps, LargeLogitsOfExactProducts) {
  for (const DType dtype : kDtypes) {
    AttentionCase c = head_dim_64(dtype);
    c.backward = false;
    for (const double x : {4.0, 80.0}) {
      const auto edit = [&](oracle::Problem& pr) { all_logits_near(pr, x, x, 0.0); };
      c.causal = false, c.seqlen_q = 20;
      expect_accurate(c, edit);
      c.causal = true;
      expect_accurate(c, edit);
      c.seqlen_q = 1;
      expect_accurate(c, edit);
    }
  }
}

TEST(Traps, GradientsOfLogitsBelowMinus50000) {
  for (const DType dtype : kDtypes)
    expect_accurate(head_dim_64(dtype), [&](oracle::Problem& pr) { all_logits_near(pr, 80, 80, spacing(dtype)); });
}

TEST(Traps, BiasBelowMinus50000OnEveryKey) {
  AttentionCase c = head_dim_64(DType::kFp32);
  c.bias = Broadcast::kFull, c.backward = false;
  expect_accurate(c, [](oracle::Problem& pr) {
    for (double& x : pr.bias.values) x = -60000;
  });
}

TEST(Traps, LogitsThatOverflowFp32) {
  AttentionCase c = head_dim_64(DType::kFp32);
  c.backward = false;
  for (const double q : {1e30, -1e30}) {
    for (const std::int64_t seqlen_q : {1, 20}) {
      c.seqlen_q = seqlen_q;
      expect_accurate(c, [q](oracle::Problem& pr) { all_logits_near(pr, q, 1e30, 0.01); });
    }
  }
}

TEST(Traps, GradientsOfLogitsThatOverflowFp32AreFinite) {
  for (const double q : {1e20, -1e20}) {
    const AttentionCase c = head_dim_64(DType::kFp32);
    oracle::Problem inputs = make_inputs(c, next_seed());
    all_logits_near(inputs, q, 1e20, 0.01);
    round_inputs(c, &inputs);
    const oracle::Results r = run(c, inputs);
    for (const oracle::Array* a : {&r.out, &r.softmax_lse, &r.dq, &r.dk, &r.dv})
      for (const double x : a->values) ASSERT_TRUE(std::isfinite(x));
  }
}

TEST(Traps, CausalWithMoreQueriesThanKeys) {
  for (const DType dtype : kDtypes)
    for (const auto& [seqlen_q, seqlen_k] : {std::pair{100, 40}, {65, 64}, {130, 1}, {129, 2}}) {
      AttentionCase c;
      c.dtype = dtype, c.causal = true, c.seqlen_q = seqlen_q, c.seqlen_k = seqlen_k, c.dlse = true;
      expect_accurate(c);
    }
}

TEST(Traps, WindowAsLongAsTheSequenceEqualsCausalBitForBit) {
  for (const DType dtype : kDtypes)
    for (const auto& [seqlen_q, seqlen_k] : {std::pair{100, 100}, {40, 100}, {100, 40}, {1, 70}}) {
      AttentionCase c;
      c.dtype = dtype, c.seqlen_q = seqlen_q, c.seqlen_k = seqlen_k;
      c.causal = true;
      const oracle::Problem causal = make_inputs(c, next_seed());
      const auto bits = run_bits(c, causal);
      for (const std::int64_t left : {seqlen_k - 1, seqlen_k, 100000}) {
        oracle::Problem window = causal;
        window.causal = false, window.window_left = left, window.window_right = 0;
        EXPECT_TRUE(run_bits(c, window) == bits) << to_string(c) << ", window " << left;
      }
    }
}

TEST(Traps, SoftcapAtATileEdge) {
  for (const DType dtype : kDtypes)
    for (const double softcap : {0.5, 15.0, 50.0}) {
      AttentionCase c;
      c.dtype = dtype, c.softcap = softcap, c.seqlen_q = 65, c.seqlen_k = 65, c.head_dim = 64;
      expect_accurate(c);
      c.causal = true;
      expect_accurate(c);
      c.seqlen_q = 1;
      expect_accurate(c);
    }
}

TEST(Traps, SeventyThousandHeads) {
  AttentionCase c;
  c.dtype = DType::kBf16, c.batch = 1, c.heads_q = c.heads_kv = 70000, c.seqlen_q = c.seqlen_k = 1, c.head_dim = 4;
  expect_accurate(c);
  c.batch = 35000, c.heads_q = c.heads_kv = 2;
  expect_accurate(c);
}

TEST(Traps, StridedKeysBesideContiguousValues) {
  for (const DType dtype : kDtypes)
    for (const Layout layout : {Layout::kStrided, Layout::kGapped, Layout::kHeadsFirst, Layout::kTransposed})
      for (const std::int64_t seqlen_q : {1, 40}) {
        AttentionCase c;
        c.dtype = dtype, c.heads_q = 4, c.seqlen_q = seqlen_q, c.seqlen_k = 80, c.head_dim = 64;
        c.layout_k = layout;
        expect_accurate(c);
      }
}

TEST(Traps, NothingToCompute) {
  for (const auto& [batch, seqlen_q, seqlen_k] :
       {std::array{2, 0, 0}, {2, 0, 5}, {2, 5, 0}, {0, 5, 5}, {0, 0, 0}, {1, 1, 0}}) {
    for (const bool causal : {false, true}) {
      AttentionCase c;
      c.batch = batch, c.seqlen_q = seqlen_q, c.seqlen_k = seqlen_k, c.causal = causal;
      c.bias = Broadcast::kFull, c.sink = true;
      expect_accurate(c);
    }
  }
}

}  // namespace
}  // namespace splitq::testing
