// Packed sequences, used lengths, pages.
#include <gtest/gtest.h>

#include "support/run_case.hpp"

namespace splitq::testing {
namespace {

AttentionCase base(DType dtype = DType::kFp32) {
  AttentionCase c;
  c.dtype = dtype, c.heads_q = 4, c.heads_kv = 2, c.head_dim = 24;
  return c;
}

TEST(Packed, LengthsOfEveryKind) {
  const std::vector<std::pair<Lengths, Lengths>> lengths = {
      {{5}, {7}},
      {{0}, {0}},
      {{0, 0}, {3, 4}},
      {{3, 4}, {0, 0}},
      {{1, 1, 1, 1}, {100, 1, 0, 33}},
      {{65, 0, 130, 1}, {65, 0, 130, 1}},
      {{0, 0, 200}, {0, 64, 128}},
      {{17, 90, 2}, {90, 17, 2}},
  };
  for (const auto& [q, k] : lengths)
    for (const bool causal : {false, true})
      for (const DType index_dtype : {DType::kInt32, DType::kInt64}) {
        AttentionCase c = base();
        c.packed_q = q, c.packed_k = k, c.causal = causal, c.index_dtype = index_dtype;
        expect_accurate(c);
      }
}

TEST(Packed, RowsBehindTheLastSequenceAreZero) {
  AttentionCase c = base();
  c.packed_q = {3, 9}, c.packed_k = {8, 2}, c.slack_rows = 5, c.layout_out = Layout::kGapped;
  expect_accurate(c);
}

TEST(Packed, ManyShortSequences) {
  AttentionCase c = base(DType::kBf16);
  for (int b = 0; b < 150; ++b) c.packed_q.push_back(b % 5), c.packed_k.push_back((b * 7) % 6);
  c.causal = true;
  expect_accurate(c);
}

TEST(UsedLengths, HideWhatLiesBehindThem) {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
    AttentionCase c = base(dtype);
    c.batch = 4, c.seqlen_q = 40, c.seqlen_k = 70;
    c.used_k = {70, 0, 1, 64};
    expect_accurate(c);
    c.causal = true;
    expect_accurate(c);
    c.used_q = {40, 7, 0, 33};
    expect_accurate(c);
    c.used_k.clear();
    expect_accurate(c);
  }
}

TEST(UsedLengths, OneQueryAgainstCachesOfDifferentLength) {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
    AttentionCase c = base(dtype);
    c.batch = 5, c.heads_q = 8, c.seqlen_q = 1, c.seqlen_k = 300, c.used_k = {300, 1, 0, 129, 256};
    expect_accurate(c);
    c.execution.num_splits = 7;
    expect_accurate(c);
  }
}

TEST(Paged, EveryPageSize) {
  for (const std::int64_t page_size : {1, 2, 3, 7, 16, 64, 100, 256}) {
    for (const std::int64_t seqlen_q : {1, 5, 70}) {
      for (const DType dtype : {DType::kFp32, DType::kBf16}) {
        AttentionCase c = base(dtype);
        c.batch = 3, c.seqlen_q = seqlen_q, c.seqlen_k = 150, c.page_size = page_size, c.backward = false;
        c.used_k = {150, 0, 67}, c.causal = true;
        expect_accurate(c);
        c.execution.num_splits = 4;
        expect_accurate(c);
      }
    }
  }
}

TEST(Paged, PackedQueries) {
  for (const std::int64_t page_size : {1, 16, 33}) {
    AttentionCase c = base(DType::kFp16);
    c.packed_q = {1, 0, 40, 3}, c.batch = 4, c.seqlen_k = 90, c.used_k = {90, 4, 77, 0};
    c.page_size = page_size, c.backward = false, c.causal = true, c.slack_rows = 3;
    c.index_dtype = DType::kInt64;
    expect_accurate(c);
  }
}

TEST(Paged, StridedPages) {
  for (const Layout layout : {Layout::kHeadsFirst, Layout::kGapped, Layout::kStrided, Layout::kReversed}) {
    AttentionCase c = base(DType::kBf16);
    c.seqlen_q = 2, c.seqlen_k = 50, c.page_size = 8, c.backward = false;
    c.layout_k = layout, c.layout_v = layout;
    expect_accurate(c);
  }
}

TEST(Paged, SharedPagesAreReadByBothSequences) {
  AttentionCase c = base();
  c.seqlen_q = 3, c.seqlen_k = 32, c.page_size = 8, c.backward = false;
  expect_accurate(c, [](oracle::Problem& pr) {
    // A common prefix: the first two pages of sequence 1 are those of sequence 0.
    for (int page = 0; page < 2; ++page) pr.block_table[pr.max_pages + page] = pr.block_table[page];
  });
}

}  // namespace
}  // namespace splitq::testing
