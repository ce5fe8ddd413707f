// The general forward: what no other kernel computes, and everything else as well.
#include "emulated.hpp"
#include "general/forward.hpp"

namespace splitq::testing {
namespace {

template <Element kElement, bool kWide>
constexpr general::Config kGeneral = gpu::general_config(kElement, kWide ? 1000 : 1);

template <Element kElement, bool kWide>
void emulate_general(CallTensors& call, const Described& d, int runs) {
  constexpr general::Config kConfig = kGeneral<kElement, kWide>;
  EXPECT_EQ(gpu::to_string(kConfig), gpu::to_string(gpu::choose_config(d.problem)));
  emulate(call, d, kConfig, true, runs, general::forward<kConfig>);
}

template <Element kElement>
void emulate_general(CallTensors& call, const Described& d, int runs) {
  const bool wide = d.problem.head_dim_v > kGeneral<kElement, false>.block_columns();
  wide ? emulate_general<kElement, true>(call, d, runs) : emulate_general<kElement, false>(call, d, runs);
}

/// `runs`: in either completion mode.
void run_general(const AttentionCase& c, CallTensors& call, int runs = 1) {
  Described d;
  describe(call, &d);
  if (::testing::Test::HasFatalFailure()) return;
  switch (c.dtype) {
    case DType::kFp16:
      return emulate_general<Element::kFp16>(call, d, runs);
    case DType::kBf16:
      return emulate_general<Element::kBf16>(call, d, runs);
    default:
      return emulate_general<Element::kFp32>(call, d, runs);
  }
}

void expect_general(AttentionCase c, const std::function<void(oracle::Problem&)>& edit = {}) {
  c.backward = false;
  expect_accurate(c, edit, [](const AttentionCase& asked, CallTensors& call) { run_general(asked, call); });
}

AttentionCase fp32_case(std::int64_t head_dim = 40, std::int64_t head_dim_v = 0) {
  AttentionCase c = small_case(head_dim, head_dim_v);
  c.dtype = DType::kFp32;
  c.batch = 1, c.seqlen_q = 40, c.seqlen_k = 70;
  return c;
}

TEST(General, TypesAndHeadSizes) {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
    for (const auto& [head_dim, head_dim_v] :
         {std::pair{1, 1}, {59, 111}, {192, 128}, {320, 320}, {576, 512}, {64, 129}}) {
      AttentionCase c = fp32_case(head_dim, head_dim_v);
      c.dtype = dtype, c.causal = true;
      if (head_dim > 100) c.seqlen_q = 9, c.heads_q = 1;
      expect_general(c);
    }
  }
}

TEST(General, BandsAtEveryProportion) {
  for (const auto& [seqlen_q, seqlen_k] : {std::pair{40, 70}, {64, 64}, {70, 33}, {33, 1}, {1, 70}, {3, 0}}) {
    AttentionCase c = fp32_case();
    c.seqlen_q = seqlen_q, c.seqlen_k = seqlen_k;
    c.causal = true;
    expect_general(c);
    c.causal = false, c.window_left = 11, c.window_right = 3;
    expect_general(c);
  }
}

TEST(General, GroupedHeads) {
  for (const std::int64_t seqlen_q : {1, 11, 40}) {
    AttentionCase c = fp32_case();
    c.heads_q = 6, c.heads_kv = 2, c.seqlen_q = seqlen_q, c.causal = true, c.sink = true;
    expect_general(c);
  }
}

/// Each option alone, then each pair; the type takes turns.
TEST(General, OptionsAndTheirPairs) {
  using Change = void (*)(AttentionCase&);
  const std::vector<Change> options{
      [](AttentionCase& c) { c.causal = true; },
      [](AttentionCase& c) { c.window_left = 13, c.window_right = 9; },
      [](AttentionCase& c) { c.softcap = 2.0; },
      [](AttentionCase& c) { c.alibi = Alibi::kPerBatchAndHead; },
      [](AttentionCase& c) { c.bias = Broadcast::kOverHeads, c.bias_in_dtype = true; },
      [](AttentionCase& c) { c.bias = Broadcast::kFull; },
      [](AttentionCase& c) { c.mask = Broadcast::kFull, c.mask_density = 0.1; },
      [](AttentionCase& c) { c.dropout = 0.4; },
      [](AttentionCase& c) { c.sink = true; },
      [](AttentionCase& c) { c.scale = -0.3; },
      [](AttentionCase& c) { c.used_q = {17}, c.used_k = {40}; },
      [](AttentionCase& c) {
        c.packed_q = {7, 0, 10}, c.packed_k = {30, 9, 0}, c.slack_rows = 3;
      },
      [](AttentionCase& c) { c.page_size = 16, c.index_dtype = DType::kInt64; },
      [](AttentionCase& c) { c.nan_hidden = true, c.mask = Broadcast::kOverQueries; },
  };
  const std::vector<DType> dtypes{DType::kFp32, DType::kFp16, DType::kBf16};
  std::size_t turn = 0;
  for (std::size_t i = 0; i < options.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      AttentionCase c = fp32_case(24, 33);
      c.dtype = dtypes[turn++ % dtypes.size()];
      c.heads_q = 2, c.heads_kv = 1, c.seqlen_q = 17, c.seqlen_k = 45;
      options[j](c);
      if (j < i) options[i](c);
      if (c.page_size > 0) c.packed_k.clear();
      if (!c.packed_q.empty()) c.batch = 3;
      if (!c.packed_q.empty() && !c.used_q.empty()) c.used_q = {5, 0, 10}, c.used_k = {30, 2, 0};
      expect_general(c);
    }
  }
}

TEST(General, Pages) {
  for (const std::int64_t page_size : {1, 16, 37}) {
    AttentionCase c = fp32_case();
    c.page_size = page_size, c.batch = 3, c.seqlen_q = 5, c.heads_q = 4;
    c.used_k = {70, 0, 33}, c.causal = true;
    expect_general(c);
    c.dtype = DType::kBf16, c.index_dtype = DType::kInt64, c.packed_q = {4, 0, 9}, c.layout_k = Layout::kHeadsFirst;
    expect_general(c);
  }
}

TEST(General, AnyStrides) {
  for (const Layout layout :
       {Layout::kHeadsFirst, Layout::kGapped, Layout::kStrided, Layout::kTransposed, Layout::kReversed}) {
    AttentionCase c = fp32_case();
    c.layout_q = c.layout_v = layout, c.bias = c.mask = Broadcast::kFull, c.layout_mask = layout;
    expect_general(c);
    c = fp32_case();
    c.dtype = DType::kFp16, c.layout_k = c.layout_out = layout, c.page_size = 7;
    expect_general(c);
  }
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// In every row of K and V that a mask, a band or a length hides from some queries, and seen by others.
TEST(General, NanShowsWhereItIsSeenAndNowhereElse) {
  for (const bool in_values : {false, true}) {
    AttentionCase c = fp32_case();
    c.causal = true, c.mask = Broadcast::kOverHeads, c.used_k = {60};
    const auto edit = [&](oracle::Problem& pr) {
      for (const std::int64_t j : {0, 31, 50, 59}) {
        for (std::int64_t d = 3; d < 40; d += 9) (in_values ? pr.v : pr.k)(j, 0, d) = kNan;
      }
    };
    expect_general(c, edit);
    // A weight too small for fp32 is a weight all the same.
    c.mask = Broadcast::kNone, c.alibi = Alibi::kPerHead;
    expect_general(c, [&](oracle::Problem& pr) {
      edit(pr);
      for (double& slope : pr.alibi_slopes.values) slope = 15;
    });
  }
}

TEST(General, NanOfABiasAndInfiniteInputs) {
  AttentionCase c = fp32_case();
  c.bias = Broadcast::kFull, c.mask = Broadcast::kFull;
  expect_general(c, [](oracle::Problem& pr) {
    for (std::size_t i = 0; i < pr.bias.values.size(); i += 7) {
      pr.bias.values[i] = i % 5 == 0 ? kNan : i % 5 == 1 ? kInfinity : -kInfinity;
    }
  });
  c.bias = Broadcast::kNone;
  expect_general(c, [](oracle::Problem& pr) {
    pr.k(3, 0, 0) = kInfinity, pr.k(9, 0, 1) = -kInfinity;
    for (double& x : pr.q.values) x = x == 0 ? 1 : x;
  });
}

/// Sums of products beyond fp32, of either sign, among others; and all of a row beyond it.
TEST(General, ScoresBeyondFp32) {
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    for (const double scale : {1.0, 1e-3, -1.0, 1e-38}) {
      AttentionCase c = fp32_case();
      c.dtype = dtype, c.scale = scale;
      expect_general(c, [](oracle::Problem& pr) {
        for (double& x : pr.q.values) x *= 1e19;
        for (double& x : pr.k.values) x *= 3e19;
      });
      expect_general(c, [](oracle::Problem& pr) {
        for (double& x : pr.q.values) x = 2e19;
        for (double& x : pr.k.values) x = -3e19;
      });
    }
  }
}

TEST(General, ExtremeBiasAndSink) {
  AttentionCase c = fp32_case();
  c.bias = Broadcast::kFull, c.sink = true;
  expect_general(c, [](oracle::Problem& pr) {
    for (std::size_t i = 0; i < pr.bias.values.size(); ++i) pr.bias.values[i] = i % 3 == 0 ? 3.3e38 : -3.3e38;
  });
  expect_general(c, [](oracle::Problem& pr) {
    for (double& x : pr.bias.values) x = -3.3e38;
    pr.sink.values[0] = -kInfinity, pr.sink.values[1] = -3e38;
  });
}

/// With v the unit matrix, out is the dropped weights.
TEST(General, DropoutKeepsWhatTheDefinitionKeeps) {
  AttentionCase c = fp32_case(24, 70);
  c.backward = false, c.dropout = 0.4, c.heads_q = 4, c.heads_kv = 2;
  oracle::Problem inputs = make_inputs(c, next_seed());
  for (std::size_t i = 0; i < inputs.v.values.size(); ++i) inputs.v.values[i] = i / (70 * 2) % 70 == i % 70;
  const oracle::Results got = run(c, inputs, [](const AttentionCase& asked, CallTensors& t) { run_general(asked, t); });
  for (std::int64_t h = 0; h < 4; ++h)
    for (std::int64_t i = 0; i < 40; ++i)
      for (std::int64_t j = 0; j < 70; ++j)
        ASSERT_EQ(got.out(i, h, j) != 0, inputs.keep(0, h, i, j)) << h << " " << i << " " << j;
}

TEST(General, Interleavings) {
  AttentionCase c = fp32_case(70, 150);
  c.backward = false, c.causal = true, c.heads_q = 1, c.heads_kv = 1;
  const oracle::Problem inputs = make_inputs(c, next_seed());
  EXPECT_TRUE(accurate(c, inputs,
                       run(c, inputs, [](const AttentionCase& asked, CallTensors& t) { run_general(asked, t, 4); })));
}

TEST(General, RandomCases) {
  for (int i = 0; i < 40; ++i) {
    Rng rng(next_seed());
    expect_general(random_case(rng));
  }
}

/// What the host gives to it.
TEST(General, TakesWhatSm80Refuses) {
  const auto header = [](AttentionCase c) {
    c.backward = false;
    CallTensors call(c, make_inputs(c, 1));
    Described d;
    describe(call, &d);
    gpu::ForwardLaunch launch;
    const Status status = gpu::make_forward_launch(d.problem, d.tensors, kSharedBytes, &launch);
    EXPECT_TRUE(status.ok()) << status.message;
    return launch.header;
  };
  AttentionCase c = small_case();
  c.dtype = DType::kBf16;
  EXPECT_EQ(header(c), "sm80/forward.hpp");
  c.head_dim = 257;
  EXPECT_EQ(header(c), "general/forward.hpp");
  c = small_case(), c.dtype = DType::kFp16;
  c.page_size = 16;
  EXPECT_EQ(header(c), "general/forward.hpp");
  c = small_case(), c.dtype = DType::kFp16;
  c.layout_v = Layout::kTransposed;
  EXPECT_EQ(header(c), "general/forward.hpp");
  EXPECT_EQ(header(fp32_case()), "general/forward.hpp");
}

}  // namespace
}  // namespace splitq::testing
