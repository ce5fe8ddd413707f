// Head sizes, head counts, sequence lengths, memory layouts.
#include <gtest/gtest.h>

#include "support/run_case.hpp"

namespace splitq::testing {
namespace {

constexpr DType kDtypes[] = {DType::kFp32, DType::kFp16, DType::kBf16};

struct HeadDims {
  std::int64_t qk, v;
};

void PrintTo(const HeadDims& value, std::ostream* out) { *out << value.qk << ", " << value.v; }

class Shapes : public ::testing::TestWithParam<HeadDims> {};

TEST_P(Shapes, HeadDim) {
  for (const DType dtype : kDtypes) {
    AttentionCase c;
    c.dtype = dtype, c.head_dim = GetParam().qk, c.head_dim_v = GetParam().v;
    c.batch = 1, c.heads_q = 4, c.heads_kv = 2, c.seqlen_q = 35, c.seqlen_k = 67;
    expect_accurate(c);
    c.causal = true;
    expect_accurate(c);
    c.seqlen_q = 1, c.causal = false;
    expect_accurate(c);
  }
}

INSTANTIATE_TEST_SUITE_P(, Shapes,
                         ::testing::Values(HeadDims{1, 1}, HeadDims{2, 3}, HeadDims{5, 5}, HeadDims{8, 8},
                                           HeadDims{16, 16}, HeadDims{17, 31}, HeadDims{32, 32}, HeadDims{59, 59},
                                           HeadDims{64, 64}, HeadDims{64, 1}, HeadDims{1, 64}, HeadDims{80, 80},
                                           HeadDims{111, 111}, HeadDims{128, 128}, HeadDims{192, 128},
                                           HeadDims{256, 256}, HeadDims{576, 512}),
                         [](const auto& test) {
                           return std::to_string(test.param.qk) + "_" + std::to_string(test.param.v);
                         });

TEST(ShapesOf, GroupsOfQueryHeads) {
  for (const auto& [heads_q, heads_kv] : {std::pair{3, 3}, {6, 3}, {7, 1}, {24, 2}, {33, 11}}) {
    for (const std::int64_t seqlen_q : {1, 2, 40}) {
      AttentionCase c;
      c.dtype = DType::kBf16, c.heads_q = heads_q, c.heads_kv = heads_kv, c.seqlen_q = seqlen_q, c.seqlen_k = 45;
      c.causal = true;
      expect_accurate(c);
    }
  }
}

TEST(ShapesOf, LengthsAroundTileEdges) {
  for (const std::int64_t seqlen_q : {1, 15, 16, 17, 64, 65, 129}) {
    for (const std::int64_t seqlen_k : {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257}) {
      AttentionCase c;
      c.batch = 1, c.heads_q = c.heads_kv = 1, c.seqlen_q = seqlen_q, c.seqlen_k = seqlen_k, c.head_dim = 16;
      expect_accurate(c);
      c.causal = true;
      expect_accurate(c);
    }
  }
}

TEST(ShapesOf, EveryLayoutOfEveryTensor) {
  for (const Layout layout :
       {Layout::kHeadsFirst, Layout::kGapped, Layout::kStrided, Layout::kTransposed, Layout::kReversed}) {
    for (Layout AttentionCase::*tensor :
         {&AttentionCase::layout_q, &AttentionCase::layout_k, &AttentionCase::layout_v, &AttentionCase::layout_out,
          &AttentionCase::layout_grad, &AttentionCase::layout_mask}) {
      for (const DType dtype : kDtypes) {
        AttentionCase c;
        c.dtype = dtype, c.heads_q = 4, c.head_dim = 24, c.seqlen_k = 50;
        c.bias = Broadcast::kFull, c.mask = Broadcast::kFull, c.mask_density = 0.9;
        c.*tensor = layout;
        expect_accurate(c);
        c.seqlen_q = 1;
        expect_accurate(c);
      }
    }
  }
}

}  // namespace
}  // namespace splitq::testing
