// The oracle's gradients against central differences of its own forward, for every option.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "oracle/attention.hpp"
#include "support/attention_case.hpp"
#include "support/seed.hpp"

namespace splitq::testing {
namespace {

struct Named {
  const char* name;
  AttentionCase attention;
};

void PrintTo(const Named& value, std::ostream* out) { *out << value.name; }

AttentionCase base() {
  AttentionCase c;
  c.batch = 2, c.heads_q = 4, c.heads_kv = 2, c.seqlen_q = 4, c.seqlen_k = 5, c.head_dim = 3, c.head_dim_v = 2;
  c.dlse = true;
  return c;
}

template <class Change>
Named with(const char* name, Change&& change) {
  Named result{name, base()};
  change(result.attention);
  return result;
}

std::vector<Named> cases() {
  using Case = AttentionCase;
  return {
      with("plain", [](Case&) {}),
      with("no_dlse", [](Case& c) { c.dlse = false; }),
      with("scale", [](Case& c) { c.scale = -0.7; }),
      with("causal", [](Case& c) { c.causal = true; }),
      with("causal_more_queries_than_keys", [](Case& c) { c.causal = true, c.seqlen_q = 7; }),
      with("window", [](Case& c) { c.window_left = 1, c.window_right = 2; }),
      with("softcap", [](Case& c) { c.softcap = 0.8; }),
      with("softcap_bias", [](Case& c) { c.softcap = 0.8, c.bias = Broadcast::kFull; }),
      with("bias", [](Case& c) { c.bias = Broadcast::kFull; }),
      with("bias_over_batch", [](Case& c) { c.bias = Broadcast::kOverBatch; }),
      with("bias_over_heads", [](Case& c) { c.bias = Broadcast::kOverHeads; }),
      with("bias_over_queries", [](Case& c) { c.bias = Broadcast::kOverQueries; }),
      with("bias_over_all", [](Case& c) { c.bias = Broadcast::kOverAll; }),
      with("mask", [](Case& c) { c.mask = Broadcast::kFull, c.mask_density = 0.4; }),
      with("alibi", [](Case& c) { c.alibi = Alibi::kPerBatchAndHead; }),
      with("sink", [](Case& c) { c.sink = true; }),
      with("sink_mask", [](Case& c) { c.sink = true, c.mask = Broadcast::kFull, c.mask_density = 0.2; }),
      with("dropout", [](Case& c) { c.dropout = 0.3; }),
      with("used_lengths",
           [](Case& c) {
             c.used_q = {4, 2}, c.used_k = {3, 5};
           }),
      with("packed",
           [](Case& c) {
             c.packed_q = {2, 0, 3}, c.packed_k = {4, 3, 0}, c.slack_rows = 1;
           }),
      with("everything",
           [](Case& c) {
             c.packed_q = {3, 0, 4}, c.packed_k = {5, 2, 4}, c.causal = true, c.window_left = 3;
             c.softcap = 1.5, c.bias = Broadcast::kOverHeads, c.mask = Broadcast::kFull, c.alibi = Alibi::kPerHead;
             c.sink = true, c.dropout = 0.2;
           }),
  };
}

/// What the gradients are gradients of: sum of dout * out + dlse * lse.
double loss(const oracle::Problem& problem) {
  oracle::Problem forward_only = problem;
  forward_only.dout = {};
  const oracle::Results r = oracle::attention(forward_only);
  double sum = 0;
  for (std::size_t i = 0; i < r.out.values.size(); ++i)
    if (r.out.values[i] != 0) sum += problem.dout.values[i] * r.out.values[i];
  for (std::size_t i = 0; i < problem.dlse.values.size(); ++i)
    if (std::isfinite(r.softmax_lse.values[i])) sum += problem.dlse.values[i] * r.softmax_lse.values[i];
  return sum;
}

void expect_gradient(const char* name, oracle::Problem problem, oracle::Array oracle::Problem::*input,
                     const oracle::Array& gradient) {
  constexpr double kStep = 1e-5, kTolerance = 1e-7;
  for (std::size_t i = 0; i < gradient.values.size(); ++i) {
    double& x = (problem.*input).values[i];
    const double x0 = x;
    x = x0 + kStep;
    const double above = loss(problem);
    x = x0 - kStep;
    const double below = loss(problem);
    x = x0;
    const double difference = (above - below) / (2 * kStep);
    ASSERT_NEAR(gradient.values[i], difference, kTolerance * std::max(1.0, std::abs(difference)))
        << name << "[" << i << "]";
  }
}

class OracleGradient : public ::testing::TestWithParam<Named> {};

TEST_P(OracleGradient, EqualsCentralDifferences) {
  const AttentionCase& c = GetParam().attention;
  const std::uint64_t seed = next_seed();
  SCOPED_TRACE(to_string(c) + " (inputs from " + std::to_string(seed) + ")");
  const oracle::Problem problem = make_inputs(c, seed);
  const oracle::Results results = oracle::attention(problem);
  expect_gradient("dq", problem, &oracle::Problem::q, results.dq);
  expect_gradient("dk", problem, &oracle::Problem::k, results.dk);
  expect_gradient("dv", problem, &oracle::Problem::v, results.dv);
  expect_gradient("dbias", problem, &oracle::Problem::bias, results.dbias);
  expect_gradient("dsink", problem, &oracle::Problem::sink, results.dsink);
}

INSTANTIATE_TEST_SUITE_P(, OracleGradient, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace splitq::testing
