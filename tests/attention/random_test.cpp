// Random combinations of everything. SPLITQ_TEST_CASES sets how many for each type.
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/run_case.hpp"
#include "support/seed.hpp"

namespace splitq::testing {
namespace {

int case_count(int usual) {
  const char* given = std::getenv("SPLITQ_TEST_CASES");
  return given ? std::atoi(given) : usual;
}

void expect_random_cases_accurate(DType dtype, int count) {
  const std::vector<std::string> instruction_sets = available_instruction_sets();
  ASSERT_FALSE(instruction_sets.empty());
  for (int i = 0; i < count; ++i) {
    Rng rng(next_seed());
    AttentionCase c = random_case(rng);
    c.dtype = dtype;
    if (rng() % 2) c.execution.instruction_set = pick(rng, instruction_sets);
    expect_accurate(c);
  }
}

constexpr int kUsual = 100, kSlow = 1500;

TEST(Random, Fp32) { expect_random_cases_accurate(DType::kFp32, case_count(kUsual)); }
TEST(Random, Fp16) { expect_random_cases_accurate(DType::kFp16, case_count(kUsual)); }
TEST(Random, Bf16) { expect_random_cases_accurate(DType::kBf16, case_count(kUsual)); }
TEST(SlowRandom, Fp32) { expect_random_cases_accurate(DType::kFp32, case_count(kSlow)); }
TEST(SlowRandom, Fp16) { expect_random_cases_accurate(DType::kFp16, case_count(kSlow)); }
TEST(SlowRandom, Bf16) { expect_random_cases_accurate(DType::kBf16, case_count(kSlow)); }

TEST(SlowLong, Sequences) {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    for (const auto& [seqlen_q, seqlen_k] : {std::pair{1500, 1500}, {1, 20000}, {3, 5000}, {2000, 100}, {100, 3000}}) {
      AttentionCase c;
      c.dtype = dtype, c.batch = 1, c.heads_q = 4, c.heads_kv = 2, c.head_dim = 64;
      c.seqlen_q = seqlen_q, c.seqlen_k = seqlen_k;
      expect_accurate(c);
      c.causal = true;
      expect_accurate(c);
      c.window_left = 300;
      expect_accurate(c);
    }
}

}  // namespace
}  // namespace splitq::testing
