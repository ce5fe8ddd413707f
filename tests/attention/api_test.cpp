// The public interface around the numbers: optional outputs, plans, refusals.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/run_case.hpp"
#include "support/seed.hpp"

namespace splitq::testing {
namespace {

bool untouched(const Tensor& tensor) {
  const auto bytes = tensor.bytes();
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0xFF}; });
}

TEST(Api, DefaultsAreTheWholeProgram) {
  AttentionCase c;
  c.causal = true, c.backward = false;
  const oracle::Problem inputs = make_inputs(c, next_seed());
  const CallTensors t(c, inputs);
  forward(t.q.view(), t.k.view(), t.v.view(), t.out.view(), {.causal = true});
  oracle::Results got = results_of(t);
  EXPECT_TRUE(untouched(t.softmax_lse)) << "softmax_lse was not asked for";
  got.softmax_lse = oracle::attention(inputs).softmax_lse;
  EXPECT_TRUE(accurate(c, inputs, got));
}

TEST(Api, GradientsOfBiasAndSinkAreOptional) {
  AttentionCase c;
  c.bias = Broadcast::kFull, c.sink = true;
  const oracle::Problem inputs = make_inputs(c, next_seed());
  const CallTensors t(c, inputs);
  forward(t.q.view(), t.k.view(), t.v.view(), t.out.view(), t.options, t.softmax_lse.view());
  BackwardTensors tensors = t.backward();
  tensors.dbias = {}, tensors.dsink = {};
  backward(tensors, t.options);
  oracle::Results got = results_of(t);
  const oracle::Results truth = oracle::attention(inputs);
  got.dbias = truth.dbias, got.dsink = truth.dsink;
  EXPECT_TRUE(accurate(c, inputs, got));
}

TEST(Api, APlanRunsOnOtherTensorsAndOtherLengths) {
  AttentionCase c;
  c.packed_q = {30, 3}, c.packed_k = {40, 20};
  const CallTensors planned(c, make_inputs(c, next_seed()));
  const Plan forward_plan = plan(planned.forward(), planned.options);
  const Plan backward_plan = plan(planned.backward(), planned.options);
  for (const auto& [q, k] : {std::pair<Lengths, Lengths>{{30, 3}, {40, 20}}, {{0, 33}, {60, 0}}, {{1, 32}, {1, 59}}}) {
    c.packed_q = q, c.packed_k = k;
    SCOPED_TRACE(to_string(c));
    const oracle::Problem inputs = make_inputs(c, next_seed());
    const CallTensors t(c, inputs);
    forward_plan.run(t.forward(), t.options);
    backward_plan.run(t.backward(), t.options);
    EXPECT_TRUE(accurate(c, inputs, results_of(t)));
  }
}

TEST(Api, APlanRefusesAnotherProblem) {
  AttentionCase c;
  const CallTensors planned(c, make_inputs(c, next_seed()));
  const Plan p = plan(planned.forward(), planned.options);
  c.seqlen_k += 1;
  const CallTensors other(c, make_inputs(c, next_seed()));
  EXPECT_THROW(p.run(other.forward(), other.options), Error);
}

TEST(Api, APlanChecksTheLengthsItIsGiven) {
  AttentionCase c;
  c.packed_q = {30, 3}, c.packed_k = {40, 20};
  const CallTensors t(c, make_inputs(c, next_seed()));
  const Plan p = plan(t.forward(), t.options);
  Options options = t.options;
  const Tensor beyond(DType::kInt32, Lengths{0, 40, 61}, {3});
  options.cu_seqlens_k = beyond.view();
  EXPECT_THROW(p.run(t.forward(), options), Error);
}

TEST(Api, SupportAnswersWhatTheCallWouldDo) {
  AttentionCase c;
  c.seqlen_q = 5, c.page_size = 8, c.backward = false;
  const CallTensors t(c, make_inputs(c, next_seed()));
  EXPECT_TRUE(is_supported(t.forward(), t.options)) << is_supported(t.forward(), t.options).reason;
  BackwardTensors backward_tensors{t.out.view(),         t.q.view(), t.k.view(), t.v.view(), t.out.view(),
                                   t.softmax_lse.view(), t.q.view(), t.k.view(), t.v.view()};
  const Support refused = is_supported(backward_tensors, t.options);
  EXPECT_FALSE(refused);
  EXPECT_FALSE(refused.reason.empty());
  EXPECT_THROW(backward(backward_tensors, t.options), Error);
}

TEST(Api, BadCallsAreRefusedBeforeAnythingIsWritten) {
  AttentionCase c;
  c.backward = false, c.batch = 2, c.used_k = {33, 33};
  const CallTensors t(c, make_inputs(c, next_seed()));
  Options options = t.options;
  const Tensor beyond(DType::kInt32, Lengths{33, 34}, {2});
  options.seqlens_k = beyond.view();
  try {
    forward(t.q.view(), t.k.view(), t.v.view(), t.out.view(), options, t.softmax_lse.view());
    FAIL() << "a length past the sequence was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("seqlens_k"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("34"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(untouched(t.out));
}

}  // namespace
}  // namespace splitq::testing
