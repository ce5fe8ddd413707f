// A NaN reaches exactly the results that depend on it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/run_case.hpp"

namespace splitq::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr DType kDtypes[] = {DType::kFp32, DType::kFp16, DType::kBf16};

AttentionCase base(DType dtype) {
  AttentionCase c;
  c.dtype = dtype, c.batch = 2, c.heads_q = 4, c.heads_kv = 2, c.seqlen_q = 70, c.seqlen_k = 70, c.head_dim = 16;
  return c;
}

TEST(Nan, InHiddenKeysReachesNothing) {
  for (const DType dtype : kDtypes) {
    AttentionCase c = base(dtype);
    c.nan_hidden = true;
    c.mask = Broadcast::kOverQueries, c.mask_density = 0.5;
    expect_accurate(c);
    c.mask = Broadcast::kOverAll, c.bias = Broadcast::kFull;
    expect_accurate(c);
    c = base(dtype), c.nan_hidden = true;
    c.seqlen_q = 20, c.window_left = 5, c.window_right = 5;
    expect_accurate(c);
    c.seqlen_q = 1;
    expect_accurate(c);
  }
}

TEST(Nan, InHiddenKeysReachesNothingThroughSoftcap) {
  for (const DType dtype : kDtypes) {
    AttentionCase c = base(dtype);
    c.nan_hidden = true, c.softcap = 30, c.mask = Broadcast::kOverQueries, c.mask_density = 0.5;
    expect_accurate(c);
    c.dropout = 0.5;
    expect_accurate(c);
  }
}

TEST(Nan, InOneQueryReachesItsRow) {
  for (const DType dtype : kDtypes) expect_accurate(base(dtype), [](oracle::Problem& pr) { pr.q(13, 1, 3) = kNan; });
}

TEST(Nan, InOneKeyReachesTheRowsThatSeeIt) {
  for (const DType dtype : kDtypes) {
    AttentionCase c = base(dtype);
    c.causal = true;
    expect_accurate(c, [](oracle::Problem& pr) { pr.k(40, 0, 0) = kNan; });
    expect_accurate(c, [](oracle::Problem& pr) { pr.k(69, 1, 15) = kNan; });
    c.window_left = 3;
    expect_accurate(c, [](oracle::Problem& pr) { pr.k(40, 0, 0) = kNan; });
    c = base(dtype), c.mask = Broadcast::kFull, c.mask_density = 0.5;
    expect_accurate(c, [](oracle::Problem& pr) { pr.k(40, 0, 0) = kNan; });
    c = base(dtype), c.seqlen_q = 1;
    expect_accurate(c, [](oracle::Problem& pr) { pr.k(40, 0, 0) = kNan; });
  }
}

TEST(Nan, InOneValueReachesItsColumn) {
  for (const DType dtype : kDtypes) {
    AttentionCase c = base(dtype);
    c.causal = true;
    expect_accurate(c, [](oracle::Problem& pr) { pr.v(40, 0, 5) = kNan; });
    c.causal = false, c.mask = Broadcast::kFull, c.mask_density = 0.5;
    expect_accurate(c, [](oracle::Problem& pr) { pr.v(40, 0, 5) = kNan; });
    c = base(dtype), c.seqlen_q = 1;
    expect_accurate(c, [](oracle::Problem& pr) { pr.v(40, 0, 5) = kNan; });
  }
}

TEST(Nan, InBiasReachesItsRow) {
  AttentionCase c = base(DType::kFp32);
  c.bias = Broadcast::kFull, c.causal = true;
  expect_accurate(c, [](oracle::Problem& pr) { pr.bias(1, 2, 30, 30) = kNan; });
  expect_accurate(c, [](oracle::Problem& pr) { pr.bias(1, 2, 30, 31) = kNan; });
}

TEST(Nan, InIncomingGradientsReachesWhatDependsOnThem) {
  for (const DType dtype : kDtypes) {
    AttentionCase c = base(dtype);
    c.causal = true, c.dlse = true;
    expect_accurate(c, [](oracle::Problem& pr) { pr.dout(50, 1, 2) = kNan; });
    expect_accurate(c, [](oracle::Problem& pr) { pr.dlse(0, 1, 50) = kNan; });
  }
}

TEST(Infinity, NegativeBiasHidesAKey) {
  for (const DType dtype : kDtypes) {
    AttentionCase c = base(dtype);
    c.bias = Broadcast::kFull;
    expect_accurate(c, [](oracle::Problem& pr) {
      for (std::size_t i = 0; i < pr.bias.values.size(); i += 3) pr.bias.values[i] = -kInfinity;
    });
    expect_accurate(c,
                    [](oracle::Problem& pr) { std::fill(pr.bias.values.begin(), pr.bias.values.end(), -kInfinity); });
    c.seqlen_q = 1;
    expect_accurate(c, [](oracle::Problem& pr) {
      std::fill(pr.bias.values.begin(), pr.bias.values.begin() + pr.bias.size() / 2, -kInfinity);
    });
  }
}

TEST(Infinity, NegativeSinkIsNoSink) {
  AttentionCase c = base(DType::kFp32);
  c.sink = true, c.mask = Broadcast::kFull, c.mask_density = 0.02;
  expect_accurate(c, [](oracle::Problem& pr) { pr.sink(1) = -kInfinity; });
}

TEST(Infinity, PositiveBiasTakesItAll) {
  AttentionCase c = base(DType::kFp32);
  c.bias = Broadcast::kFull, c.backward = false;
  expect_accurate(c, [](oracle::Problem& pr) {
    pr.bias(0, 0, 3, 7) = kInfinity;
    pr.bias(0, 1, 3, 7) = pr.bias(0, 1, 3, 8) = kInfinity;
  });
}

}  // namespace
}  // namespace splitq::testing
