#include "support/run_case.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "support/seed.hpp"

namespace splitq::testing {
namespace {

using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

bool same_nonfinite(double a, double b) { return std::isnan(b) ? std::isnan(a) : a == b; }

/// One result under the accuracy rule, over one or more draws of the inputs:
/// max|got - truth| <= 2 max|plain - truth| + 1e-5.
class Judge {
 public:
  Judge(const char* name, oracle::Format type) : name_(name), type_(type) {}

  void compare(const oracle::Array& got, const oracle::Array& truth, const oracle::Array& plain) {
    if (got.values.size() != truth.values.size()) {
      wrong_ = ": " + std::to_string(got.values.size()) + " elements, not " + std::to_string(truth.values.size());
      return;
    }
    for (std::size_t i = 0; i < truth.values.size() && !wrong(); ++i)
      compare(i, got.values[i], truth.values[i], plain.values[i]);
  }

  /// NaN, infinity or a missing element where it may not be: no further draw makes it right.
  bool wrong() const { return !wrong_.empty(); }

  AssertionResult verdict() const {
    if (wrong()) return AssertionFailure() << name_ << wrong_;
    const double allowed = 2 * plain_worst_ + 1e-5;
    if (worst_ <= allowed) return AssertionSuccess();
    return AssertionFailure() << name_ << worst_element_ << ": off by " << worst_ << ", allowed " << allowed;
  }

 private:
  void compare(std::size_t i, double got, double truth, double plain) {
    // What lies beyond the type's largest number is rightly its infinity.
    const double rounded = oracle::round_to(type_, truth);
    const double want = std::isfinite(rounded) ? truth : rounded;
    if (!std::isfinite(want) || !std::isfinite(got)) {
      if (!same_nonfinite(got, want)) wrong_ = describe(i, got, want);
      return;
    }
    if (std::isfinite(plain)) plain_worst_ = std::max(plain_worst_, std::abs(plain - want));
    if (std::abs(got - want) <= worst_) return;
    worst_ = std::abs(got - want);
    worst_element_ = describe(i, got, want);
  }

  static std::string describe(std::size_t i, double got, double want) {
    std::ostringstream text;
    text << "[" << i << "] is " << got << ", not " << want;
    return text.str();
  }

  const char* name_;
  oracle::Format type_;
  double worst_ = 0, plain_worst_ = 0;
  std::string worst_element_;
  std::string wrong_;
};

/// All results of a case.
class Judges {
 public:
  explicit Judges(const AttentionCase& c) : c_(c) {
    const oracle::Format type = format_of(c.dtype);
    add("out", &oracle::Results::out, type);
    add("softmax_lse", &oracle::Results::softmax_lse, oracle::kFp32);
    add("dq", &oracle::Results::dq, type);
    add("dk", &oracle::Results::dk, type);
    add("dv", &oracle::Results::dv, type);
    add("dbias", &oracle::Results::dbias, format_of(c.bias_dtype()));
    add("dsink", &oracle::Results::dsink, oracle::kFp32);
  }

  void compare(const oracle::Problem& inputs, const oracle::Results& got) {
    const oracle::Results truth = oracle::attention(inputs);
    const oracle::Results plain =
        oracle::materialised_attention(inputs, format_of(c_.dtype), format_of(c_.bias_dtype()), got);
    for (auto& [member, judge] : judges_)
      if ((truth.*member).given()) judge.compare(got.*member, truth.*member, plain.*member);
  }

  bool wrong() const {
    return std::any_of(judges_.begin(), judges_.end(), [](const auto& entry) { return entry.second.wrong(); });
  }

  AssertionResult verdict() const {
    AssertionResult all = AssertionSuccess();
    for (const auto& [member, judge] : judges_) {
      const AssertionResult one = judge.verdict();
      if (!one) all = (all ? AssertionFailure() : all) << one.message() << "\n";
    }
    return all;
  }

 private:
  using Member = oracle::Array oracle::Results::*;
  void add(const char* name, Member member, oracle::Format type) { judges_.emplace_back(member, Judge(name, type)); }

  const AttentionCase& c_;
  std::vector<std::pair<Member, Judge>> judges_;
};

}  // namespace

void call_library(const AttentionCase& c, CallTensors& tensors) {
  forward(tensors.q.view(), tensors.k.view(), tensors.v.view(), tensors.out.view(), tensors.options,
          tensors.softmax_lse.view(), c.execution);
  if (tensors.dout.given()) backward(tensors.backward(), tensors.options, c.execution);
}

oracle::Results run(const AttentionCase& c, const oracle::Problem& inputs, const Call& call) {
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
  call_library(c, tensors);
  std::vector<std::byte> bits;
  for (const auto& [name, tensor] : tensors.outputs()) {
    const auto bytes = tensor->bytes();
    bits.insert(bits.end(), bytes.begin(), bytes.end());
  }
  return bits;
}

AssertionResult accurate(const AttentionCase& c, const oracle::Problem& inputs, const oracle::Results& got) {
  Judges judges(c);
  judges.compare(inputs, got);
  return judges.verdict();
}

void expect_accurate(const AttentionCase& c, const std::function<void(oracle::Problem&)>& edit, const Call& call) {
  // The largest error of the plain computation in a few numbers is a poor sample of what its errors may be. Where one
  // draw is beyond the rule, more are added to it, and the rule holds for the maxima over all of them.
  constexpr int kDraws = 32;
  Judges judges(c);
  std::string seeds;
  try {
    for (int draw = 0; draw < kDraws && !judges.wrong() && (draw == 0 || !judges.verdict()); ++draw) {
      const std::uint64_t seed = next_seed();
      seeds += " " + std::to_string(seed);
      oracle::Problem inputs = make_inputs(c, seed);
      if (edit) {
        edit(inputs);
        round_inputs(c, &inputs);
      }
      SCOPED_TRACE(to_string(c) + " (inputs from" + seeds + ")");
      judges.compare(inputs, run(c, inputs, call));
    }
    EXPECT_TRUE(judges.verdict()) << to_string(c) << " (inputs from" << seeds << ")";
  } catch (const Error& error) {
    ADD_FAILURE() << "refused: " << error.what() << "\n" << to_string(c);
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
