// Each option alone, and every pair of options, forward and backward, in every type.
#include <gtest/gtest.h>

#include <string_view>

#include "support/option.hpp"
#include "support/run_case.hpp"

namespace splitq::testing {
namespace {

class Options : public ::testing::TestWithParam<Option> {};

TEST_P(Options, Alone) {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    expect_accurate(case_with(dtype, GetParam(), GetParam()));
}

TEST_P(Options, WithEveryLaterOne) {
  bool later = false;
  for (const Option& second : all_options()) {
    if (later) {
      for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
        expect_accurate(case_with(dtype, GetParam(), second));
    }
    later |= std::string_view(second.name) == GetParam().name;
  }
}

INSTANTIATE_TEST_SUITE_P(, Options, ::testing::ValuesIn(all_options().begin(), all_options().end()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace splitq::testing
