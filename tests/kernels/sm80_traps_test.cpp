// The sm80 forward where matrix instructions get it wrong: 0 * NaN of keys that are hidden, and scores beyond fp32.
#include "emulated.hpp"

namespace splitq::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class Change>
constexpr Config small(Element element, Change change) {
  Config c = small_config(element, 32, 64);
  change(c);
  return c;
}

constexpr Config kBand = small(Element::kFp16, [](Config& c) { c.banded = c.indexed = true, c.stages = 2; });
constexpr Config kGroup = small(Element::kBf16, [](Config& c) { c.banded = c.pack_group = true; });
constexpr Config kMask = small(Element::kBf16, [](Config& c) { c.mask = c.banded = true; });
constexpr Config kBias = small(Element::kBf16, [](Config& c) { c.bias = c.softcap = true; });
constexpr Config kScaled = small(Element::kBf16, [](Config& c) { c.scaled = true, c.stages = 2; });
constexpr Config kPlain = small(Element::kBf16, [](Config&) {});
constexpr Config kHalves = small(Element::kFp16, [](Config&) {});

AttentionCase trap_case() {
  AttentionCase c = small_case(32, 64);
  c.batch = 1, c.seqlen_q = 40, c.seqlen_k = 70;
  return c;
}

void nan_in(oracle::Array& a, std::int64_t columns) {
  for (const std::int64_t j : {0, 31, 50, 69})
    for (std::int64_t d = 3; d < columns; d += 9) a(j, 0, d) = kNan;
}

TEST(Sm80Traps, NanOfHiddenKeys) {
  for (const bool in_values : {false, true}) {
    const auto edit = [&](oracle::Problem& pr) { in_values ? nan_in(pr.v, 64) : nan_in(pr.k, 32); };
    AttentionCase c = trap_case();
    c.causal = true;
    expect_kernel<kBand>(c, edit);
    c.window_left = 10, c.sink = true;
    expect_kernel<kBand>(c, edit);
    c.used_q = {30}, c.used_k = {45};
    expect_kernel<kBand>(c, edit);
    c = trap_case();
    c.heads_q = 3, c.seqlen_q = 11, c.causal = true;
    expect_kernel<kGroup>(c, edit);
    c = trap_case();
    c.mask = Broadcast::kFull, c.mask_density = 0.5;
    expect_kernel<kMask>(c, edit);
  }
}

TEST(Sm80Traps, NanInWhatNoRowSees) {
  AttentionCase c = trap_case();
  c.nan_hidden = true, c.window_left = 3, c.window_right = 0;
  expect_kernel<kBand>(c);
  c.window_left = -1, c.window_right = -1, c.mask = Broadcast::kOverQueries, c.mask_density = 0.3;
  expect_kernel<kMask>(c);
}

/// Sums of products of one sign, below and above what fp32 holds.
void large_sums(oracle::Problem& pr, double q, double (*k)(std::int64_t)) {
  for (double& x : pr.q.values) x = q;
  for (std::int64_t j = 0; j < pr.k.shape[0]; ++j)
    for (std::int64_t d = 0; d < pr.head_dim; ++d) pr.k(j, 0, d) = k(j);
}

TEST(Sm80Traps, ScoresBeyondFp32) {
  for (const double q : {1e19, -1e19}) {
    for (const auto k :
         {+[](std::int64_t) { return 3e18; }, +[](std::int64_t j) { return 1e18 * static_cast<double>(j % 5); },
          +[](std::int64_t j) { return 3e18 * static_cast<double>(j % 3 - 1); }}) {
      const auto edit = [&](oracle::Problem& pr) { large_sums(pr, q, k); };
      AttentionCase c = trap_case();
      expect_kernel<kPlain>(c, edit);
      c.scale = -0.125;
      expect_kernel<kScaled>(c, edit);
      c = trap_case();
      c.mask = Broadcast::kFull;
      expect_kernel<kMask>(c, edit);
      c = trap_case();
      c.bias = Broadcast::kFull, c.softcap = 3.0;
      expect_kernel<kBias>(c, edit);
    }
  }
}

/// Where scores become logits one by one, also sums that overflow on the way only.
TEST(Sm80Traps, ScoresThatOverflowOnTheWay) {
  const auto edit = [](oracle::Problem& pr) {
    for (double& x : pr.q.values) x *= 3e18;
    for (double& x : pr.k.values) x *= 3e19;
  };
  AttentionCase c = trap_case();
  c.scale = -0.125;
  expect_kernel<kScaled>(c, edit);
  c = trap_case();
  c.mask = Broadcast::kFull;
  expect_kernel<kMask>(c, edit);
}

TEST(Sm80Traps, InfiniteKeys) {
  AttentionCase c = trap_case();
  expect_kernel<kHalves>(c, [](oracle::Problem& pr) { pr.k(7, 0, 0) = kInfinity; });
}

}  // namespace
}  // namespace splitq::testing
