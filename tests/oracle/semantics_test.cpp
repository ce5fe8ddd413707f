// The oracle against small results worked out by hand, one for each rule of docs/semantics.md.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "oracle/attention.hpp"

namespace oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Array column(std::vector<double> values) {
  Array a({std::ssize(values), 1, 1});
  a.values = std::move(values);
  return a;
}

/// One head, head size 1: the logits of query i are q_i * k_j.
Problem scalar(std::vector<double> q, std::vector<double> k, std::vector<double> v) {
  Problem pr;
  pr.seqlen_q = std::ssize(q), pr.seqlen_k = std::ssize(k);
  pr.q = column(std::move(q)), pr.k = column(std::move(k)), pr.v = column(std::move(v));
  return pr;
}

TEST(OracleSemantics, WeightsAreExponentialsOfLogits) {
  const Results r = attention(scalar({1}, {0, std::log(3.0)}, {4, 8}));
  EXPECT_NEAR(r.out(0, 0, 0), 7, 1e-14);
  EXPECT_NEAR(r.softmax_lse(0, 0, 0), std::log(4.0), 1e-14);
}

TEST(OracleSemantics, CausalIsAlignedBottomRight) {
  Problem pr = scalar({0, 0}, {0, 0, 0}, {1, 2, 6});
  pr.causal = true;
  const Results r = attention(pr);
  EXPECT_DOUBLE_EQ(r.out(0, 0, 0), 1.5);
  EXPECT_DOUBLE_EQ(r.out(1, 0, 0), 3);
}

TEST(OracleSemantics, RowWithoutKeysIsZero) {
  Problem pr = scalar({0, 0, 0}, {0, 0}, {1, 2});
  pr.causal = true;
  const Results r = attention(pr);
  EXPECT_EQ(r.out(0, 0, 0), 0);
  EXPECT_EQ(r.softmax_lse(0, 0, 0), -kInfinity);
  EXPECT_EQ(r.out(1, 0, 0), 1);
}

TEST(OracleSemantics, SinkTakesPartInTheDenominatorAlone) {
  Problem pr = scalar({0}, {0, 0}, {3, 6});
  pr.sink = Array({1}, 0.0);
  Results r = attention(pr);
  EXPECT_NEAR(r.out(0, 0, 0), 3, 1e-14);
  EXPECT_NEAR(r.softmax_lse(0, 0, 0), std::log(3.0), 1e-14);
  pr.mask = Array({1, 1, 1, 2}, 0.0);
  pr.sink(0) = 2.5;
  r = attention(pr);
  EXPECT_EQ(r.out(0, 0, 0), 0);
  EXPECT_EQ(r.softmax_lse(0, 0, 0), 2.5);
  pr.sink(0) = -kInfinity;
  EXPECT_EQ(attention(pr).softmax_lse(0, 0, 0), -kInfinity);
}

TEST(OracleSemantics, WindowCountsFromTheDiagonal) {
  Problem pr = scalar({0, 0, 0, 0}, {0, 0, 0, 0}, {1, 2, 4, 8});
  pr.window_left = 1, pr.window_right = 0;
  const Results r = attention(pr);
  EXPECT_DOUBLE_EQ(r.out(0, 0, 0), 1);
  EXPECT_DOUBLE_EQ(r.out(3, 0, 0), 6);
}

TEST(OracleSemantics, SoftcapBeforeBias) {
  Problem pr = scalar({1}, {1e9}, {1});
  pr.softcap = 2;
  pr.bias = Array({1, 1, 1, 1}, 0.5);
  EXPECT_NEAR(attention(pr).softmax_lse(0, 0, 0), 2.5, 1e-14);
}

TEST(OracleSemantics, AlibiFallsWithDistance) {
  Problem pr = scalar({0, 0}, {0, 0, 0}, {1, 1, 1});
  pr.alibi_slopes = Array({1}, 2.0);
  // Query 0 stands at key 1, query 1 at key 2.
  const Results r = attention(pr);
  EXPECT_NEAR(r.softmax_lse(0, 0, 0), std::log(1 + 2 * std::exp(-2.0)), 1e-14);
  EXPECT_NEAR(r.softmax_lse(0, 0, 1), std::log(1 + std::exp(-2.0) + std::exp(-4.0)), 1e-14);
}

TEST(OracleSemantics, VeryLargeLogitsShare) {
  const double bound = 0x1p126 * std::log(2.0);
  Problem pr = scalar({1e30}, {1e30, 2e30, 3}, {2, 6, 100});
  Results r = attention(pr);
  EXPECT_DOUBLE_EQ(r.out(0, 0, 0), 4);
  EXPECT_DOUBLE_EQ(r.softmax_lse(0, 0, 0), bound);
  pr = scalar({-1e30}, {1e30, 2e30}, {2, 6});
  r = attention(pr);
  EXPECT_DOUBLE_EQ(r.out(0, 0, 0), 4);
  EXPECT_DOUBLE_EQ(r.softmax_lse(0, 0, 0), -bound);
  r = materialised_attention(pr, kFp32, kFp32, {});
  EXPECT_EQ(r.out(0, 0, 0), 4);
}

TEST(OracleSemantics, DropoutScalesWhatItKeeps) {
  constexpr int kKeys = 4096;
  Problem pr = scalar({0}, std::vector<double>(kKeys, 0.0), std::vector<double>(kKeys, 1.0));
  pr.dropout = 0.25, pr.seed = 12345;
  const Results r = attention(pr);
  EXPECT_NEAR(r.out(0, 0, 0), 1, 0.05);
  EXPECT_NE(r.out(0, 0, 0), 1);
  EXPECT_NEAR(r.softmax_lse(0, 0, 0), std::log(4096.0), 1e-12);
}

TEST(OracleSemantics, PagesAreFoundThroughTheTable) {
  Problem pr = scalar({0}, std::vector<double>(6, 0.0), {10, 20, 30, 40, 50, 60});
  pr.page_size = 2, pr.max_pages = 2, pr.seqlen_k = 4;
  pr.block_table = {2, 0}, pr.seqlens_k = {3};
  EXPECT_DOUBLE_EQ(attention(pr).out(0, 0, 0), (50 + 60 + 10) / 3.0);
}

TEST(OracleSemantics, NanReachesTheRowsThatSeeIt) {
  Problem pr = scalar({1, 1}, {1, std::nan("")}, {1, 1});
  pr.causal = true;
  const Results r = attention(pr);
  EXPECT_EQ(r.out(0, 0, 0), 1);
  EXPECT_TRUE(std::isnan(r.out(1, 0, 0)));
  EXPECT_TRUE(std::isnan(r.softmax_lse(0, 0, 1)));
}

}  // namespace
}  // namespace oracle
