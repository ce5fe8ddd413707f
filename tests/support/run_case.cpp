#include "support/run_case.hpp"

#include <algorithm>
#include <cmath>

#include "support/seed.hpp"

namespace splitq::testing {
namespace {

using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

bool same_nonfinite(double a, double b) { return std::isnan(b) ? std::isnan(a) : a == b; }

/// max|got - truth| <= 2 max|plain - truth| + 1e-5 over the elements of one result.
AssertionResult within_rule(const char* name, const oracle::Array& got, const oracle::Array& truth,
                            const oracle::Array& plain, oracle::Format type) {
  if (got.values.size() != truth.values.size())
    return AssertionFailure() << name << ": " << got.values.size() << " elements, not " << truth.values.size();
  double worst = 0, plain_worst = 0;
  std::size_t worst_at = 0;
  for (std::size_t i = 0; i < truth.values.size(); ++i) {
    // What lies beyond the type's largest number is rightly its infinity.
    const double want = std::isfinite(oracle::round_to(type, truth.values[i])) ? truth.values[i]
                                                                               : oracle::round_to(type, truth.values[i]);
    const double have = got.values[i];
    if (!std::isfinite(want) || !std::isfinite(have)) {
      if (same_nonfinite(have, want)) continue;
      return AssertionFailure() << name << "[" << i << "] is " << have << ", not " << want;
    }
    const double error = std::abs(have - want);
    if (error > worst) worst = error, worst_at = i;
    if (std::isfinite(plain.values[i])) plain_worst = std::max(plain_worst, std::abs(plain.values[i] - want));
  }
  const double allowed = 2 * plain_worst + 1e-5;
  if (worst <= allowed) return AssertionSuccess();
  return AssertionFailure() << name << "[" << worst_at << "] is " << got.values[worst_at] << ", not "
                            << truth.values[worst_at] << ": off by " << worst << ", allowed " << allowed;
}

void call(const AttentionCase& c, CallTensors& tensors) {
  forward(tensors.q.view(), tensors.k.view(), tensors.v.view(), tensors.out.view(), tensors.options,
          tensors.softmax_lse.view(), c.execution);
  if (tensors.dout.given()) backward(tensors.backward(), tensors.options, c.execution);
}

}  // namespace

oracle::Results run(const AttentionCase& c, const oracle::Problem& inputs) {
  CallTensors tensors(c, inputs);
  std::vector<std::vector<std::byte>> before;
  for (const auto& [name, tensor] : tensors.inputs()) before.push_back(tensor->memory());
  call(c, tensors);
  std::size_t i = 0;
  for (const auto& [name, tensor] : tensors.inputs())
    EXPECT_TRUE(tensor->memory() == before[i++]) << name << " was written";
  for (const auto& [name, tensor] : tensors.outputs())
    EXPECT_TRUE(tensor->guards_intact()) << "memory around " << name << " was written";
  return results_of(tensors);
}

std::vector<std::byte> run_bits(const AttentionCase& c, const oracle::Problem& inputs) {
  CallTensors tensors(c, inputs);
  call(c, tensors);
  std::vector<std::byte> bits;
  for (const auto& [name, tensor] : tensors.outputs()) {
    const auto bytes = tensor->bytes();
    bits.insert(bits.end(), bytes.begin(), bytes.end());
  }
  return bits;
}

AssertionResult accurate(const AttentionCase& c, const oracle::Problem& inputs, const oracle::Results& got) {
  const oracle::Format type = format_of(c.dtype), bias_type = format_of(c.bias_dtype());
  const oracle::Results truth = oracle::attention(inputs);
  const oracle::Results plain = oracle::materialised_attention(inputs, type, bias_type, got);
  AssertionResult all = AssertionSuccess();
  const auto check = [&](const char* name, oracle::Array oracle::Results::*member, oracle::Format format) {
    if (!(truth.*member).given()) return;
    const AssertionResult one = within_rule(name, got.*member, truth.*member, plain.*member, format);
    if (!one) all = (all ? AssertionFailure() : all) << one.message() << "\n";
  };
  check("out", &oracle::Results::out, type);
  check("softmax_lse", &oracle::Results::softmax_lse, oracle::kFp32);
  check("dq", &oracle::Results::dq, type);
  check("dk", &oracle::Results::dk, type);
  check("dv", &oracle::Results::dv, type);
  check("dbias", &oracle::Results::dbias, bias_type);
  check("dsink", &oracle::Results::dsink, oracle::kFp32);
  return all;
}

void expect_accurate(const AttentionCase& c, const std::function<void(oracle::Problem&)>& edit) {
  const std::uint64_t seed = next_seed();
  SCOPED_TRACE(to_string(c) + " (inputs from " + std::to_string(seed) + ")");
  oracle::Problem inputs = make_inputs(c, seed);
  if (edit) {
    edit(inputs);
    round_inputs(c, &inputs);
  }
  try {
    EXPECT_TRUE(accurate(c, inputs, run(c, inputs)));
  } catch (const Error& error) {
    ADD_FAILURE() << "refused: " << error.what();
  }
}

std::vector<std::string> available_instruction_sets() {
  std::vector<std::string> names;
  for (const BackendInfo& backend : backends()) {
    constexpr std::string_view kPrefix = "cpu/";
    if (backend.available && backend.name.starts_with(kPrefix)) names.push_back(backend.name.substr(kPrefix.size()));
  }
  return names;
}

}  // namespace splitq::testing
