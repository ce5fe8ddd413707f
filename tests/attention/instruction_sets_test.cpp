// Every instruction set that this machine has, forced by name.
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/run_case.hpp"

namespace splitq::testing {
namespace {

std::vector<AttentionCase> cases_of(DType dtype) {
  AttentionCase plain;
  plain.dtype = dtype, plain.heads_q = 4, plain.seqlen_q = 50, plain.seqlen_k = 90, plain.head_dim = 64;
  AttentionCase odd = plain;
  odd.head_dim = 59, odd.head_dim_v = 33, odd.causal = true, odd.softcap = 2, odd.bias = Broadcast::kFull;
  odd.dropout = 0.1, odd.sink = true;
  odd.layout_k = Layout::kStrided, odd.layout_v = Layout::kTransposed;
  AttentionCase masked = plain;
  masked.mask = Broadcast::kFull, masked.mask_density = 0.1, masked.nan_hidden = true, masked.alibi = Alibi::kPerHead;
  masked.window_left = 30;
  AttentionCase decode = plain;
  decode.seqlen_q = 1, decode.seqlen_k = 400, decode.page_size = 16, decode.backward = false;
  AttentionCase tiny = plain;
  tiny.head_dim = 1, tiny.seqlen_q = 3, tiny.seqlen_k = 2;
  return {plain, odd, masked, decode, tiny};
}

TEST(InstructionSets, AtLeastOneIsAvailableAndOneIsChosen) {
  EXPECT_FALSE(available_instruction_sets().empty());
  int chosen = 0;
  for (const BackendInfo& backend : backends()) chosen += backend.chosen && backend.name.starts_with("cpu/");
  EXPECT_EQ(chosen, 1);
}

TEST(InstructionSets, EachIsAccurate) {
  for (const std::string& name : available_instruction_sets())
    for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
      for (AttentionCase c : cases_of(dtype)) {
        c.execution.instruction_set = name;
        expect_accurate(c);
      }
}

TEST(InstructionSets, PlanNamesTheOneThatWasForced) {
  for (const std::string& name : available_instruction_sets()) {
    AttentionCase c;
    c.execution.instruction_set = name;
    const CallTensors call(c, make_inputs(c, 1));
    EXPECT_EQ(plan(call.forward(), call.options, c.execution).backend(), "cpu/" + name);
  }
}

/// SPLITQ_INSTRUCTION_SET for one scope.
class Forced {
 public:
  explicit Forced(const std::string& name) { setenv(kVariable, name.c_str(), 1); }
  ~Forced() { unsetenv(kVariable); }

 private:
  static constexpr const char* kVariable = "SPLITQ_INSTRUCTION_SET";
};

TEST(InstructionSets, TheEnvironmentForcesOneUnlessTheCallNamesAnother) {
  for (const std::string& name : available_instruction_sets()) {
    const Forced forced(name);
    AttentionCase c;
    const CallTensors call(c, make_inputs(c, 1));
    EXPECT_EQ(plan(call.forward(), call.options, c.execution).backend(), "cpu/" + name);
    for (const BackendInfo& backend : backends()) {
      if (!backend.name.starts_with("cpu/")) continue;
      EXPECT_EQ(backend.chosen, backend.name == "cpu/" + name);
    }
    expect_accurate(c);
    c.execution.instruction_set = "scalar";
    EXPECT_EQ(plan(call.forward(), call.options, c.execution).backend(), "cpu/scalar");
  }
}

TEST(InstructionSets, AnUnknownOneInTheEnvironmentIsRefusedByName) {
  const Forced forced("abacus");
  AttentionCase c;
  const CallTensors call(c, make_inputs(c, 1));
  const Support support = is_supported(call.forward(), call.options, c.execution);
  EXPECT_FALSE(support);
  EXPECT_NE(support.reason.find("\"abacus\" (from SPLITQ_INSTRUCTION_SET)"), std::string::npos) << support.reason;
}

TEST(InstructionSets, AnUnknownOneIsRefusedByName) {
  AttentionCase c;
  c.execution.instruction_set = "abacus";
  const CallTensors call(c, make_inputs(c, 1));
  const Support support = is_supported(call.forward(), call.options, c.execution);
  EXPECT_FALSE(support);
  EXPECT_NE(support.reason.find("abacus"), std::string::npos) << support.reason;
  EXPECT_THROW(forward(call.q.view(), call.k.view(), call.v.view(), call.out.view(), {}, {}, c.execution), Error);
}

}  // namespace
}  // namespace splitq::testing
