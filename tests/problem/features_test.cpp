// The list of what the library can do, and the page made from it.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "problem/call.hpp"
#include "problem/features.hpp"

namespace splitq::testing {
namespace {

TEST(FeaturesTest, SupportPageIsCurrent) {
  std::ifstream file(SPLITQ_SUPPORT_PAGE);
  ASSERT_TRUE(file) << SPLITQ_SUPPORT_PAGE;
  std::stringstream page;
  page << file.rdbuf();
  const std::string text = page.str(), begin = "<!-- generated -->\n", end = "<!-- end -->";
  const std::size_t from = text.find(begin), to = text.find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  EXPECT_EQ(text.substr(from + begin.size(), to - from - begin.size()), support_table())
      << "put the right-hand text between the marks";
}

std::set<std::string> used(const Problem& problem) {
  std::set<std::string> names;
  for (const Feature& f : features()) {
    if (f.used(problem)) names.insert(f.name);
  }
  return names;
}

TEST(FeaturesTest, TellWhatAProblemUses) {
  Call call(Direction::kForward);
  Problem problem;
  ASSERT_TRUE(call.check(&problem).ok());
  std::set<std::string> expected = {"fp32, fp16, bf16", "head_dim != head_dim_v", "heads_q > heads_kv", "softmax_lse"};
  EXPECT_EQ(used(problem), expected);
  call.options.causal = true;
  call.options.softcap = 1;
  call.options.sink = call.make(DType::kFp32, {kHq});
  call.page();
  ASSERT_TRUE(call.check(&problem).ok());
  expected.insert({"causal, window", "softcap", "sink", "block_table", "seqlens_q, seqlens_k"});
  EXPECT_EQ(used(problem), expected);
}

TEST(FeaturesTest, ADeviceThatLacksOneIsNamed) {
  Problem problem;
  ASSERT_TRUE(Call(Direction::kForward).check(&problem).ok());
  EXPECT_TRUE(check_features(problem, DeviceKind::kCpu).ok());
  ASSERT_TRUE(Call(Direction::kBackward).check(&problem).ok());
  EXPECT_TRUE(check_features(problem, DeviceKind::kCpu).ok());
  const Status status = check_features(problem, DeviceKind::kCuda);
  EXPECT_EQ(status.code, StatusCode::kUnsupported);
  EXPECT_EQ(status.message, "fp32, fp16, bf16: given to backward on cuda; may be given to backward on cpu");
}

}  // namespace
}  // namespace splitq::testing
