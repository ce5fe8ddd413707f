// The sm80 forward: every option, alone and together.
#include "emulated.hpp"

namespace splitq::testing {
namespace {

/// Small tiles with bands, the options set by `change`.
template <class Change>
constexpr Config banded(Element element, Change change) {
  Config c = small_config(element);
  c.banded = true;
  change(c);
  return c;
}

constexpr Config kSoftcap = banded(Element::kBf16, [](Config& c) { c.softcap = true; });

TEST(Sm80Options, Softcap) {
  for (const double softcap : {0.5, 15.0, 50.0}) {
    AttentionCase c = small_case();
    c.softcap = softcap;
    expect_kernel<kSoftcap>(c);
    c.causal = true, c.scale = -0.3;
    expect_kernel<kSoftcap>(c);
  }
}

constexpr Config kAlibi = banded(Element::kFp16, [](Config& c) { c.alibi = true, c.stages = 2; });

TEST(Sm80Options, Alibi) {
  AttentionCase c = small_case();
  c.alibi = Alibi::kPerHead;
  expect_kernel<kAlibi>(c);
  c.alibi = Alibi::kPerBatchAndHead, c.causal = true;
  expect_kernel<kAlibi>(c);
}

template <Element kElement>
constexpr Config kBias = banded(kElement, [](Config& c) { c.bias = true; });

template <Element kElement>
void expect_bias() {
  for (const Broadcast kind : {Broadcast::kFull, Broadcast::kOverAll, Broadcast::kOverHeads}) {
    AttentionCase c = small_case();
    c.bias = kind;
    expect_kernel<kBias<kElement>>(c);
    c.bias_in_dtype = true, c.layout_mask = Layout::kGapped, c.causal = true;
    expect_kernel<kBias<kElement>>(c);
  }
}

TEST(Sm80Options, Bias) {
  expect_bias<Element::kFp16>();
  expect_bias<Element::kBf16>();
}

TEST(Sm80Options, BiasBelowMinus50000) {
  AttentionCase c = small_case();
  c.bias = Broadcast::kFull;
  expect_kernel<kBias<Element::kFp16>>(c, [](oracle::Problem& pr) {
    for (double& x : pr.bias.values) x = -60000;
  });
}

TEST(Sm80Options, BiasOfMinusInfinityHides) {
  AttentionCase c = small_case();
  c.bias = Broadcast::kFull;
  expect_kernel<kBias<Element::kBf16>>(c, [](oracle::Problem& pr) {
    for (std::size_t i = 0; i < pr.bias.values.size(); ++i)
      if (i % 3 == 0 || i < 90) pr.bias.values[i] = -std::numeric_limits<double>::infinity();  // all keys of row 0
  });
}

constexpr Config kMask = banded(Element::kBf16, [](Config& c) { c.mask = true, c.stages = 2; });

TEST(Sm80Options, Mask) {
  for (const Broadcast kind : {Broadcast::kFull, Broadcast::kOverBatch, Broadcast::kOverQueries, Broadcast::kOverAll}) {
    AttentionCase c = small_case();
    c.mask = kind;
    expect_kernel<kMask>(c);
    c.mask_density = 0.03, c.causal = true, c.layout_mask = Layout::kStrided;
    expect_kernel<kMask>(c);
  }
}

TEST(Sm80Options, MaskWhoseLastRowsAreFalse) {
  for (const bool sink : {false, true}) {
    AttentionCase c = small_case();
    c.mask = Broadcast::kFull, c.sink = sink;
    expect_kernel<kMask>(c, [](oracle::Problem& pr) {
      for (std::int64_t row = 0; row < pr.batch * pr.heads_q * 70; ++row)
        if (row % 70 >= 33) std::fill_n(pr.mask.values.begin() + row * 90, 90, 0.0);
    });
  }
}

constexpr Config kScaled = banded(Element::kFp16, [](Config& c) { c.scaled = true; });

TEST(Sm80Options, ScalesThatAreNotPositive) {
  for (const double scale : {-0.2, 0.0, -3.0, 1e-38}) {
    AttentionCase c = small_case();
    c.scale = scale;
    expect_kernel<kScaled>(c);
    c.causal = true;
    expect_kernel<kScaled>(c);
  }
}

constexpr Config kDropout = banded(Element::kFp16, [](Config& c) { c.dropout = true; });

TEST(Sm80Options, Dropout) {
  for (const double dropout : {0.1, 0.5, 0.9999}) {
    AttentionCase c = small_case();
    c.dropout = dropout;
    expect_kernel<kDropout>(c);
    c.causal = true;
    expect_kernel<kDropout>(c);
  }
}

/// With v the unit matrix, out is the dropped weights.
TEST(Sm80Options, DropoutKeepsWhatTheDefinitionKeeps) {
  AttentionCase c = small_case();
  c.dtype = DType::kFp16, c.backward = false, c.dropout = 0.4;
  c.heads_q = 4, c.heads_kv = 2, c.seqlen_k = 64;
  oracle::Problem inputs = make_inputs(c, next_seed());
  for (std::size_t i = 0; i < inputs.v.values.size(); ++i) {
    const std::size_t key = i / (64 * 2) % 64, column = i % 64;
    inputs.v.values[i] = key == column;
  }
  const oracle::Results got = run(c, inputs, [](const AttentionCase&, CallTensors& t) { emulate<kDropout>(t); });
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t h = 0; h < 4; ++h)
      for (std::int64_t i = 0; i < 70; ++i)
        for (std::int64_t j = 0; j < 64; ++j)
          ASSERT_EQ(got.out(b * 70 + i, h, j) != 0, inputs.keep(b, h, i, j)) << b << " " << h << " " << i << " " << j;
}

constexpr Config kEverything = banded(Element::kBf16, [](Config& c) {
  c.padded = true, c.aligned = false, c.pack_group = true, c.indexed = true, c.stages = 2;
  c.softcap = c.alibi = c.bias = c.mask = c.dropout = true;
});

TEST(Sm80Options, EverythingTogether) {
  AttentionCase c = small_case(50, 61);
  c.heads_q = 6, c.heads_kv = 2;
  c.packed_q = {5, 0, 30, 17}, c.packed_k = {40, 9, 0, 50}, c.batch = 4, c.slack_rows = 3;
  c.used_q = {5, 0, 11, 9}, c.used_k = {33, 2, 0, 50};
  c.window_left = 20, c.window_right = 2, c.softcap = 3.0, c.dropout = 0.2, c.sink = true;
  c.alibi = Alibi::kPerBatchAndHead, c.bias = Broadcast::kOverBatch, c.mask = Broadcast::kFull;
  expect_kernel<kEverything>(c);
  c.bias_in_dtype = true, c.causal = true, c.index_dtype = DType::kInt64;
  expect_kernel<kEverything>(c);
}

}  // namespace
}  // namespace splitq::testing
