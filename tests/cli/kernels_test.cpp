// kernels and precompile: GPU kernels compiled without a GPU.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "program.hpp"

namespace splitq::testing {
namespace {

using nlohmann::json;

/// Few kernels, quick to compile.
constexpr const char* kFew = "kFp16, .head_dim = 32, .head_dim_v = 32, .stages = 2, .bias";

class Kernels : public Program {
 protected:
  /// Without NVRTC there is nothing to compile with; that the message says so is all that can be checked.
  void SetUp() override {
    const Outcome outcome = run({"kernels", "--arch", "sm_80", "--filter", "no such kernel"});
    if (outcome.err.find("NVRTC: not found") != std::string::npos) GTEST_SKIP() << outcome.err;
  }
};

TEST_F(Kernels, TableAndJson) {
  const Outcome outcome = run({"kernels", "--arch", "sm_75,sm_90a", "--filter", kFew, "--json", "k.json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  const json told = json::parse(read_bytes("k.json"));
  EXPECT_EQ(told["faults"], 0);
  ASSERT_FALSE(told["kernels"].empty());
  for (const json& kernel : told["kernels"]) {
    EXPECT_GT(kernel["registers"], 0);
    EXPECT_EQ(kernel["spill_store_bytes"], 0);
    EXPECT_GT(kernel["shared_bytes"], 0);
    EXPECT_LE(kernel["shared_bytes"], kernel["shared_bytes_limit"]);
    EXPECT_GT(kernel["seconds"], 0);
    EXPECT_NE(outcome.out.find(kernel["entry"].get<std::string>()), std::string::npos);
  }
  EXPECT_EQ(files(), (std::vector<std::string>{"k.json"}));
}

TEST_F(Kernels, BadArgumentsLeaveNoFile) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"kernels", "--arch", "sm_33", "--json", "k.json"}, "'sm_33'"},
      {{"kernels", "--arch", "sm_80", "--filter", "no such kernel"}, "'no such kernel'"},
      {{"kernels", "--arch", "sm_80", "--json", "no/such/k.json"}, "no/such/k.json"},
      {{"kernels", "--arch", "sm_80", "--json", "."}, "'.'"},
      {{"kernels", "--arch", "sm_80", "--jobs", "0"}, "--jobs"},
      {{"precompile", "--arch", "sm_80"}, "--out"},
      {{"precompile", "--out", "pack"}, "--arch"},
      {{"precompile", "--arch", "90", "--out", "pack"}, "'90'"},
      {{"precompile", "--arch", "sm_80", "--out", "no/such/pack"}, "no/such/pack"}};
  for (const auto& [args, part] : cases) {
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.status, 2) << part;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
    EXPECT_TRUE(files().empty()) << part;
  }
}

TEST_F(Kernels, Precompile) {
  const Outcome outcome = run({"precompile", "--arch", "sm_80,compute_75", "--filter", kFew, "--out", "pack"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find(" kernels, "), std::string::npos) << outcome.out;
  EXPECT_EQ(files(), (std::vector<std::string>{"pack"}));
  EXPECT_EQ(read_bytes("pack").substr(0, 13), "splitq kernel");
}

}  // namespace
}  // namespace splitq::testing
