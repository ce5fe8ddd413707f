// The sm80 forward: head sizes, tile sizes, layouts in memory.
#include "emulated.hpp"
#include "gpu/tiles.hpp"

namespace splitq::testing {
namespace {

/// Tiles as on a GPU, at lengths around their edges.
template <Config kConfig>
void expect_at_edges(std::int64_t head_dim) {
  AttentionCase c = small_case(head_dim);
  c.batch = c.heads_q = 1;
  for (const auto& [seqlen_q, seqlen_k] : {std::pair{kConfig.tile_m, 2 * kConfig.tile_n},
                                           {kConfig.tile_m + 1, 2 * kConfig.tile_n + 1},
                                           {1, kConfig.tile_n - 1},
                                           {1, 1}}) {
    c.seqlen_q = seqlen_q, c.seqlen_k = seqlen_k;
    expect_kernel<kConfig>(c);
  }
}

constexpr Config on_gpu(Element element, int head_dim) {
  return gpu::with_tiles({.element = element, .head_dim = head_dim, .head_dim_v = head_dim}, kSharedBytes);
}

TEST(Sm80Shapes, HeadDim64InTilesOfAGpu) { expect_at_edges<on_gpu(Element::kBf16, 64)>(64); }
TEST(Sm80Shapes, HeadDim128InTilesOfAGpu) { expect_at_edges<on_gpu(Element::kFp16, 128)>(128); }
TEST(Sm80Shapes, HeadDim256InTilesOfAGpu) { expect_at_edges<on_gpu(Element::kBf16, 256)>(256); }

TEST(Sm80Shapes, HeadDim32) { expect_kernel<small_config(Element::kFp16, 32)>(small_case(32)); }

TEST(Sm80Shapes, HeadDim96) {
  constexpr Config kConfig = [] {
    Config c = small_config(Element::kBf16, 96);
    c.tile_m = 64, c.tile_n = 48, c.stages = 2;
    return c;
  }();
  expect_kernel<kConfig>(small_case(96));
}

TEST(Sm80Shapes, HeadDim160) { expect_kernel<small_config(Element::kFp16, 160)>(small_case(160)); }

TEST(Sm80Shapes, HeadDim192WithValuesOf128) {
  constexpr Config kConfig = [] {
    Config c = small_config(Element::kBf16, 192, 128);
    c.stages = 2;
    return c;
  }();
  expect_kernel<kConfig>(small_case(192, 128));
}

TEST(Sm80Shapes, ValuesWiderThanKeys) {
  constexpr Config kConfig = [] {
    Config c = small_config(Element::kFp16, 32, 256);
    c.padded = true;
    return c;
  }();
  expect_kernel<kConfig>(small_case(32, 248));
}

TEST(Sm80Shapes, MultiplesOf8ThatAreNoMultiplesOf32) {
  constexpr Config kConfig = [] {
    Config c = small_config(Element::kBf16, 96, 64);
    c.padded = true, c.stages = 2;
    return c;
  }();
  expect_kernel<kConfig>(small_case(72, 40));
  expect_kernel<kConfig>(small_case(88, 64));
}

template <int kStages>
constexpr Config kOddSizes = [] {
  Config c = small_config(Element::kFp16, 64, 128);
  c.padded = true, c.aligned = false, c.stages = kStages;
  return c;
}();

TEST(Sm80Shapes, OddHeadDims) {
  expect_kernel<kOddSizes<1>>(small_case(59, 111));
  expect_kernel<kOddSizes<2>>(small_case(59, 111));
  expect_kernel<kOddSizes<1>>(small_case(33, 97));
}

TEST(Sm80Shapes, LayoutsInMemory) {
  for (const Layout layout : {Layout::kHeadsFirst, Layout::kGapped}) {
    AttentionCase c = small_case(64, 128);
    c.layout_q = c.layout_v = layout;
    expect_kernel<kOddSizes<1>>(c);
    c = small_case(64, 128);
    c.layout_k = c.layout_out = layout;
    expect_kernel<kOddSizes<2>>(c);
  }
}

TEST(Sm80Shapes, HeadsFirst) {
  AttentionCase c = small_case(32);
  c.layout_q = c.layout_k = c.layout_v = c.layout_out = Layout::kHeadsFirst;
  expect_kernel<small_config(Element::kFp16, 32)>(c);
}

TEST(Sm80Shapes, NoKeys) {
  AttentionCase c = small_case(32);
  c.seqlen_k = 0;
  expect_kernel<small_config(Element::kFp16, 32)>(c);
  c.sink = true;
  expect_kernel<small_config(Element::kFp16, 32)>(c);
}

}  // namespace
}  // namespace splitq::testing
