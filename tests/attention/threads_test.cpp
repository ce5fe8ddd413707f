// How the work is divided changes nothing: threads, schedules, splits; the same bits for the same call.
#include <gtest/gtest.h>

#include <thread>

#include "support/run_case.hpp"
#include "support/seed.hpp"

namespace splitq::testing {
namespace {

using Rescale = Schedule::Rescale;
using Parallel = Schedule::Parallel;

std::vector<AttentionCase> various_cases() {
  AttentionCase plain;
  plain.heads_q = 4, plain.seqlen_q = 150, plain.seqlen_k = 140;
  AttentionCase gqa = plain;
  gqa.dtype = DType::kBf16, gqa.heads_q = 6, gqa.causal = true, gqa.sink = true, gqa.bias = Broadcast::kOverBatch;
  AttentionCase packed;
  packed.dtype = DType::kFp16, packed.packed_q = {90, 0, 1, 33}, packed.packed_k = {120, 5, 70, 33};
  packed.dropout = 0.2, packed.bias = Broadcast::kOverAll, packed.dlse = true;
  AttentionCase decode;
  decode.heads_q = 8, decode.seqlen_q = 1, decode.seqlen_k = 700, decode.used_k = {700, 333};
  return {plain, gqa, packed, decode};
}

TEST(Threads, AnyNumber) {
  for (AttentionCase c : various_cases())
    for (c.execution.threads = 1; c.execution.threads <= 3; ++c.execution.threads) expect_accurate(c);
}

TEST(Threads, SameBitsWhateverTheirNumber) {
  for (AttentionCase c : various_cases()) {
    SCOPED_TRACE(to_string(c));
    const oracle::Problem inputs = make_inputs(c, next_seed());
    c.execution.threads = 1;
    const auto bits = run_bits(c, inputs);
    for (const int threads : {1, 2, 3, 5, 0}) {
      c.execution.threads = threads;
      EXPECT_TRUE(run_bits(c, inputs) == bits) << threads << " threads";
    }
  }
}

TEST(Threads, SameBitsInEveryRun) {
  for (AttentionCase c : various_cases()) {
    SCOPED_TRACE(to_string(c));
    c.execution.threads = 3;
    const oracle::Problem inputs = make_inputs(c, next_seed());
    const auto bits = run_bits(c, inputs);
    for (int repeat = 0; repeat < 5; ++repeat) EXPECT_TRUE(run_bits(c, inputs) == bits);
  }
}

TEST(Threads, CallersInParallel) {
  const std::vector<AttentionCase> cases = various_cases();
  std::vector<oracle::Problem> inputs;
  std::vector<std::vector<std::byte>> alone;
  for (const AttentionCase& c : cases) {
    inputs.push_back(make_inputs(c, next_seed()));
    alone.push_back(run_bits(c, inputs.back()));
  }
  std::vector<std::vector<std::byte>> together(cases.size());
  {
    std::vector<std::jthread> callers;
    for (std::size_t i = 0; i < cases.size(); ++i)
      callers.emplace_back([&, i] { together[i] = run_bits(cases[i], inputs[i]); });
  }
  EXPECT_TRUE(together == alone);
}

TEST(Threads, Schedules) {
  for (AttentionCase c : various_cases())
    for (const Rescale rescale : {Rescale::kAtEnd, Rescale::kEveryStep})
      for (const Parallel parallel : {Parallel::kSequence, Parallel::kBatchHeads})
        for (const int threads : {1, 2}) {
          c.execution.schedule = {rescale, parallel};
          c.execution.threads = threads;
          expect_accurate(c);
        }
}

TEST(Threads, SplitsOfTheKeys) {
  for (AttentionCase c : various_cases())
    for (const std::int64_t num_splits : {1, 2, 3, 8, 1000}) {
      c.execution.num_splits = num_splits;
      c.execution.threads = 2;
      expect_accurate(c);
    }
}

TEST(ThreadsPlan, OnePlanRunsInManyThreads) {
  const AttentionCase c = various_cases().front();
  const oracle::Problem inputs = make_inputs(c, next_seed());
  std::vector<CallTensors> calls;
  for (int i = 0; i < 3; ++i) calls.emplace_back(c, inputs);
  const Plan forward_plan = plan(calls[0].forward(), calls[0].options);
  const Plan backward_plan = plan(calls[0].backward(), calls[0].options);
  {
    std::vector<std::jthread> callers;
    for (CallTensors& call : calls)
      callers.emplace_back([&] {
        forward_plan.run(call.forward(), call.options);
        backward_plan.run(call.backward(), call.options);
      });
  }
  for (const CallTensors& call : calls) EXPECT_TRUE(accurate(c, inputs, results_of(call)));
}

}  // namespace
}  // namespace splitq::testing
