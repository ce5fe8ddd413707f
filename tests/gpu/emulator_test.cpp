// device = emulator: the library's own choice of kernel, compiled on first use, against the oracle.
#include <gtest/gtest.h>

#include "gpu/run_emulator.hpp"
#include "support/option.hpp"
#include "support/run_case.hpp"

/// AddressSanitizer: a fake stack for each fiber of each block makes it 8 times slower and finds nothing here.
extern "C" const char* __asan_default_options() { return "detect_stack_use_after_return=0"; }

namespace splitq::testing {
namespace {

AttentionCase on_emulator(AttentionCase c) {
  c.backward = false;
  c.execution.device = {DeviceKind::kEmulator, 0};
  return c;
}

class Emulator : public ::testing::TestWithParam<Option> {};

TEST_P(Emulator, ComputesIt) {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    expect_accurate(on_emulator(case_with(dtype, GetParam(), GetParam())));
}

INSTANTIATE_TEST_SUITE_P(, Emulator, ::testing::ValuesIn(all_options().begin(), all_options().end()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(EmulatorPlan, RunsAgainOnOtherMemory) {
  AttentionCase c;
  c.dtype = DType::kBf16, c.head_dim = 64, c.causal = true;
  c = on_emulator(c);
  CallTensors first(c, make_inputs(c, 1)), second(c, make_inputs(c, 2));
  const Plan made = plan(first.forward(), first.options, c.execution);
  EXPECT_EQ(made.backend(), "emulator/sm_80");
  EXPECT_EQ(made.workspace_bytes(), 0u);
  EXPECT_NE(made.describe().find("splitq::sm80::forward<"), std::string::npos) << made.describe();
  made.run(first.forward(), first.options);
  made.run(second.forward(), second.options);
  EXPECT_TRUE(accurate(c, make_inputs(c, 1), results_of(first)));
  EXPECT_TRUE(accurate(c, make_inputs(c, 2), results_of(second)));
}

TEST(EmulatorPlan, CountsTheWork) {
  AttentionCase c;
  c.dtype = DType::kFp16, c.head_dim = 64, c.seqlen_q = c.seqlen_k = 128;
  CallTensors call(c, make_inputs(c, 1));
  Problem problem;
  ASSERT_TRUE(make_problem(call.forward(), call.options, &problem).ok());
  emulator::Report report;
  const Status status = gpu::run_emulator(problem, gather(call.forward(), call.options), {}, &report);
  ASSERT_TRUE(status.ok()) << status.message;
  // Two products of 128 x 128 x 64 for each of 2 sequences and 2 heads; one tile has it all.
  EXPECT_EQ(report.counters.matmul_flops, 4u * 2 * 2 * 128 * 128 * 64);
  EXPECT_EQ(report.counters.global_bytes_read, 2u * 2 * 3 * 128 * 64 * sizeof(std::uint16_t));
  EXPECT_EQ(report.counters.blocks, 4u);
}

TEST(EmulatorRefuses, WhatItDoesNotCompute) {
  AttentionCase c = on_emulator({});
  c.dtype = DType::kFp16;
  const auto refusal = [&](auto change) {
    AttentionCase changed = c;
    change(changed);
    CallTensors call(changed, make_inputs(changed, 1));
    const Support support = changed.backward ? is_supported(call.backward(), call.options, changed.execution)
                                             : is_supported(call.forward(), call.options, changed.execution);
    EXPECT_FALSE(support);
    return support.reason;
  };
  EXPECT_EQ(refusal([](AttentionCase& x) { x.backward = true; }),
            "device: emulator for backward; must be cpu: gradients are computed there alone");
  EXPECT_EQ(refusal([](AttentionCase& x) { x.execution.num_splits = 2; }),
            "num_splits: 2, on emulator; must be 0 or 1: keys are split on cpu alone");
  EXPECT_EQ(refusal([](AttentionCase& x) { x.execution.schedule.rescale = Schedule::Rescale::kEveryStep; }),
            "schedule: not the default one, on emulator; others are for cpu");
  EXPECT_EQ(refusal([](AttentionCase& x) { x.execution.stream = &x; }),
            "stream: given on emulator; may be given on cuda alone");
  EXPECT_EQ(refusal([](AttentionCase& x) { x.execution.device.kind = static_cast<DeviceKind>(7); }),
            "device: number 7; must be one of auto (0), cpu (1), cuda (2), emulator (3)");
}

TEST(Placement, ADeviceReadsTheTensorsThatLieThere) {
  AttentionCase c;
  CallTensors call(c, make_inputs(c, 1));
  const auto reason = [&](Device lies, Device asked) {
    ForwardTensors t = call.forward();
    for (TensorView* view : {&t.q, &t.k, &t.v, &t.out, &t.softmax_lse}) view->device = lies;
    Execution execution;
    execution.device = asked;
    return is_supported(t, call.options, execution).reason;
  };
  constexpr Device kCpu{}, kAuto{DeviceKind::kAuto, 0}, kCuda{DeviceKind::kCuda, 0}, kOther{DeviceKind::kCuda, 1};
  constexpr Device kEmulator{DeviceKind::kEmulator, 0};
  EXPECT_EQ(reason(kCpu, kAuto), "");
  EXPECT_EQ(reason(kCpu, kCuda), "device: cuda:0; must be auto, cpu or emulator, as q is on cpu");
  EXPECT_EQ(reason(kCuda, kCpu), "device: cpu; must be auto or cuda:0, as q is on cuda:0");
  EXPECT_EQ(reason(kOther, kCuda), "device: cuda:0; must be auto or cuda:1, as q is on cuda:1");
  EXPECT_EQ(reason(kOther, kEmulator), "device: emulator; must be auto or cuda:1, as q is on cuda:1");
  EXPECT_EQ(reason(kEmulator, kEmulator),
            "q: on emulator; must be on cpu, which is the memory that the emulator reads, or on cuda");
}

}  // namespace
}  // namespace splitq::testing
