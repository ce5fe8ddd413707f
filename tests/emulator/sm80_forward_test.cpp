// Every option of the sm80 forward on small problems: the oracle's answer, and nothing that a GPU would not forgive.
#include "forward_call.hpp"

namespace splitq::emulator::testing {
namespace {

using sm80::Config;
using sm80::Element;
using splitq::testing::Alibi;
using splitq::testing::Broadcast;
using splitq::testing::Layout;

constexpr Config kSmall{.head_dim = 64, .head_dim_v = 64, .tile_m = 64, .tile_n = 32};

AttentionCase small(DType dtype = DType::kBf16) {
  AttentionCase c;
  c.dtype = dtype;
  c.batch = 1, c.heads_q = 2, c.heads_kv = 2;
  c.seqlen_q = 70, c.seqlen_k = 90;
  c.head_dim = 64;
  c.backward = false;
  return c;
}

/// A case changed in a few places: with(small(), [](auto& c) { ... }).
template <class Edit>
AttentionCase with(AttentionCase c, Edit edit) {
  edit(c);
  return c;
}

constexpr Config with(Config config, void (*edit)(Config&)) {
  edit(config);
  return config;
}

TEST(Sm80Forward, plain) {
  expect_forward<kSmall>(small());
  expect_forward<kSmall>(with(small(), [](auto& c) { c.batch = 2, c.seqlen_q = 64, c.seqlen_k = 64; }));
  expect_forward<kSmall>(with(small(), [](auto& c) { c.seqlen_q = 1, c.seqlen_k = 1; }));
}

TEST(Sm80Forward, fp16) {
  constexpr Config kConfig = with(kSmall, [](Config& k) { k.element = Element::kFp16; });
  expect_forward<kConfig>(small(DType::kFp16));
}

TEST(Sm80Forward, exact_maximum_in_every_step) {
  constexpr Config kConfig = with(kSmall, [](Config& k) { k.rescale = sm80::Rescale::kEveryBlock; });
  expect_forward<kConfig>(small());
}

TEST(Sm80Forward, two_stages) {
  constexpr Config kConfig = with(kSmall, [](Config& k) { k.stages = 2; });
  expect_forward<kConfig>(small());
  expect_forward<kConfig>(with(small(), [](auto& c) { c.seqlen_k = 20; }));
}

TEST(Sm80Forward, two_row_tiles_a_warp) {
  constexpr Config kConfig = with(kSmall, [](Config& k) { k.warps = 2; });
  expect_forward<kConfig>(small());
}

TEST(Sm80Forward, head_sizes) {
  constexpr Config kNarrow = with(kSmall, [](Config& k) { k.head_dim = k.head_dim_v = 32; });
  constexpr Config kWide = with(kSmall, [](Config& k) { k.head_dim = k.head_dim_v = 96; });
  constexpr Config kUneven = with(kSmall, [](Config& k) { k.head_dim_v = 32; });
  constexpr Config kPadded = with(kSmall, [](Config& k) { k.padded = true; });
  expect_forward<kNarrow>(with(small(), [](auto& c) { c.head_dim = 32; }));
  expect_forward<kWide>(with(small(), [](auto& c) { c.head_dim = 96; }));
  expect_forward<kUneven>(with(small(), [](auto& c) { c.head_dim_v = 32; }));
  expect_forward<kPadded>(with(small(), [](auto& c) { c.head_dim = 40, c.head_dim_v = 56; }));
}

TEST(Sm80Forward, any_alignment) {
  constexpr Config kAny = with(kSmall, [](Config& k) { k.padded = true, k.aligned = false; });
  expect_forward<kAny>(with(small(), [](auto& c) { c.head_dim = 61, c.head_dim_v = 7; }));
  expect_forward<kAny>(with(small(), [](auto& c) {
    c.head_dim = 33;
    c.layout_q = c.layout_k = c.layout_v = c.layout_out = Layout::kGapped;
  }));
}

TEST(Sm80Forward, layouts) {
  expect_forward<kSmall>(
      with(small(), [](auto& c) { c.layout_q = c.layout_k = c.layout_v = c.layout_out = Layout::kHeadsFirst; }));
}

constexpr Config kBanded = with(kSmall, [](Config& k) { k.banded = true; });

TEST(Sm80Forward, causal) {
  expect_forward<kBanded>(with(small(), [](auto& c) { c.causal = true; }));
  // Some rows see no key.
  expect_forward<kBanded>(with(small(), [](auto& c) { c.causal = true, c.seqlen_q = 90, c.seqlen_k = 20; }));
}

TEST(Sm80Forward, window) {
  expect_forward<kBanded>(with(small(), [](auto& c) { c.window_left = 10, c.window_right = 3; }));
  expect_forward<kBanded>(with(small(), [](auto& c) { c.window_left = 0; }));
}

TEST(Sm80Forward, grouped_heads) {
  constexpr Config kPacked = with(kSmall, [](Config& k) { k.pack_group = true, k.banded = true; });
  const auto grouped = with(small(), [](auto& c) { c.heads_q = 6, c.heads_kv = 2, c.seqlen_q = 30; });
  expect_forward<kSmall>(grouped);
  expect_forward<kPacked>(with(grouped, [](auto& c) { c.causal = true; }));
}

TEST(Sm80Forward, softcap) {
  constexpr Config kConfig = with(kSmall, [](Config& k) { k.softcap = true; });
  expect_forward<kConfig>(with(small(), [](auto& c) { c.softcap = 2.0; }));
}

TEST(Sm80Forward, alibi) {
  constexpr Config kAlibi = with(kSmall, [](Config& k) { k.alibi = true; });
  expect_forward<kAlibi>(with(small(), [](auto& c) { c.alibi = Alibi::kPerHead; }));
  expect_forward<kAlibi>(with(small(), [](auto& c) { c.alibi = Alibi::kPerBatchAndHead, c.batch = 2; }));
}

TEST(Sm80Forward, bias) {
  constexpr Config kBias = with(kSmall, [](Config& k) { k.bias = true; });
  expect_forward<kBias>(with(small(), [](auto& c) { c.bias = Broadcast::kFull; }));
  expect_forward<kBias>(with(small(), [](auto& c) { c.bias = Broadcast::kOverAll, c.bias_in_dtype = true; }));
}

TEST(Sm80Forward, mask) {
  constexpr Config kMask = with(kSmall, [](Config& k) { k.mask = true; });
  expect_forward<kMask>(with(small(), [](auto& c) { c.mask = Broadcast::kFull; }));
  expect_forward<kMask>(with(small(), [](auto& c) { c.mask = Broadcast::kOverQueries, c.mask_density = 0.05; }));
}

TEST(Sm80Forward, sink) {
  expect_forward<kBanded>(with(small(), [](auto& c) { c.sink = true, c.causal = true, c.seqlen_k = 50; }));
}

TEST(Sm80Forward, dropout) {
  constexpr Config kConfig = with(kSmall, [](Config& k) { k.dropout = true; });
  expect_forward<kConfig>(with(small(), [](auto& c) { c.dropout = 0.3; }));
}

TEST(Sm80Forward, packed_sequences_and_used_lengths) {
  constexpr Config kIndexed = with(kBanded, [](Config& k) { k.indexed = true; });
  expect_forward<kIndexed>(with(small(), [](auto& c) { c.packed_q = {3, 0, 70}, c.packed_k = {40, 5, 33}; }));
  expect_forward<kIndexed>(with(small(), [](auto& c) {
    c.packed_q = {3, 66}, c.packed_k = {40, 33}, c.causal = true, c.index_dtype = DType::kInt64;
  }));
  expect_forward<kIndexed>(with(small(), [](auto& c) { c.batch = 2, c.used_q = {70, 5}, c.used_k = {0, 41}; }));
}

TEST(Sm80Forward, everything_at_once) {
  constexpr Config kAll = with(kSmall, [](Config& k) {
    k.padded = k.pack_group = k.banded = k.softcap = k.alibi = k.bias = k.mask = k.dropout = true;
  });
  expect_forward<kAll>(with(small(), [](auto& c) {
    c.batch = 2, c.heads_q = 4, c.head_dim = 48, c.head_dim_v = 24, c.causal = true, c.window_left = 60;
    c.softcap = 5.0, c.alibi = Alibi::kPerHead, c.bias = Broadcast::kOverBatch, c.mask = Broadcast::kOverHeads;
    c.dropout = 0.2, c.sink = true;
  }));
}

}  // namespace
}  // namespace splitq::emulator::testing
