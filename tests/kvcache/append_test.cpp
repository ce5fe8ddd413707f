#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "kvcache/reference.hpp"

namespace splitq::testing {
namespace {

constexpr std::int64_t kB = 3, kNew = 4, kHkv = 2, kD = 8, kDv = 5, kPositions = 16, kCapacity = 12;

struct AppendCase {
  DType dtype;
  std::int64_t page_size;  // 0: not paged
  bool rotary, interleaved;
  Order order;
  std::int64_t gap;
};

class AppendTest : public ::testing::TestWithParam<AppendCase> {};

TEST_P(AppendTest, WritesBehindTheLengthsAlone) {
  const AppendCase& c = GetParam();
  const std::vector<std::int64_t> lengths = {0, 5, kCapacity - kNew};
  const std::int64_t max_pages = c.page_size == 0 ? 0 : (kCapacity + c.page_size - 1) / c.page_size,
                     pages = kB * max_pages + 2;
  auto cache_shape = [&](std::int64_t width) {
    return c.page_size == 0 ? std::vector<std::int64_t>{kB, kCapacity, kHkv, width}
                            : std::vector<std::int64_t>{pages, c.page_size, kHkv, width};
  };
  Array k_new(c.dtype, {kB, kNew, kHkv, kD}, c.order, c.gap), v_new(c.dtype, {kB, kNew, kHkv, kDv}, c.order, c.gap);
  Array k_cache(c.dtype, cache_shape(kD), c.order, c.gap), v_cache(c.dtype, cache_shape(kDv), Order::kRowMajor, c.gap);
  Array k_before(c.dtype, cache_shape(kD)), v_before(c.dtype, cache_shape(kDv));
  Array seqlens(DType::kInt32, {kB}), table(DType::kInt64, {kB, max_pages}, c.order);
  Array cos(DType::kFp32, {kPositions, 3}), sin(DType::kFp32, {kPositions, 3});
  k_new.fill_random(1), v_new.fill_random(2), cos.fill_random(3), sin.fill_random(4), seqlens.fill(lengths);
  k_cache.fill_random(5), v_cache.fill_random(6), k_before.fill_random(5), v_before.fill_random(6);
  std::vector<std::int64_t> entries;
  for (std::int64_t n = 0; n < kB * max_pages; ++n)
    entries.push_back((n * 3 + 1) % pages);  // distinct: 3 divides no count of pages here
  table.fill(entries);

  AppendTensors t{k_new.view(), v_new.view(), k_cache.view(), v_cache.view(), seqlens.view()};
  if (c.page_size > 0) t.block_table = table.view();
  if (c.rotary) t.rotary = {cos.view(), sin.view(), c.interleaved};
  append_kv(t);

  // Which new token stands in row (i0, i1) of the cache, if any does.
  auto token_at = [&](std::int64_t i0, std::int64_t i1) -> std::optional<std::pair<std::int64_t, std::int64_t>> {
    for (std::int64_t b = 0; b < kB; ++b) {
      for (std::int64_t s = 0; s < kNew; ++s) {
        const std::int64_t position = lengths[b] + s;
        const bool here = c.page_size == 0
                              ? i0 == b && i1 == position
                              : i0 == entries[b * max_pages + position / c.page_size] && i1 == position % c.page_size;
        if (here) return std::pair{b, s};
      }
    }
    return std::nullopt;
  };
  std::int64_t written = 0;
  k_cache.for_each([&](const Array::Index& i) {
    const auto token = token_at(i[0], i[1]);
    double expected = k_before.get(i), tolerance = 0;
    if (token) {
      const Array::Index from = {token->first, token->second, i[2], i[3]};
      const std::int64_t position = lengths[token->first] + token->second;
      expected = c.rotary ? rotated(k_new, from, cos, sin, c.interleaved, position) : k_new.get(from);
      tolerance = c.rotary ? rotary_tolerance(c.dtype) : 0;
      ++written;
    }
    ASSERT_NEAR(k_cache.get(i), expected, tolerance);
  });
  EXPECT_EQ(written, kB * kNew * kHkv * kD);
  v_cache.for_each([&](const Array::Index& i) {
    const auto token = token_at(i[0], i[1]);
    ASSERT_EQ(v_cache.get(i), token ? v_new.get({token->first, token->second, i[2], i[3]}) : v_before.get(i));
  });
}

INSTANTIATE_TEST_SUITE_P(All, AppendTest,
                         ::testing::Values(AppendCase{DType::kFp32, 0, false, false, Order::kRowMajor, 0},
                                           AppendCase{DType::kFp32, 1, true, false, Order::kReversed, 1},
                                           AppendCase{DType::kFp16, 3, true, true, Order::kLastDimOutermost, 0},
                                           AppendCase{DType::kBf16, 0, true, false, Order::kRowMajor, 2},
                                           AppendCase{DType::kBf16, 5, false, false, Order::kRowMajor, 0},
                                           AppendCase{DType::kFp16, 16, false, false, Order::kReversed, 0}));

/// A valid paged call with 2 sequences, 3 new tokens and pages of 2, which tests spoil.
class AppendRefusalTest : public ::testing::Test {
 protected:
  AppendRefusalTest() {
    k_new.fill_random(1), v_new.fill_random(2), k_cache.fill_random(3), v_cache.fill_random(4);
    cos.fill_random(5), sin.fill_random(6), seqlens.fill({1, 2}), table.fill({0, 1, 2, 3, 4, 5});
  }

  AppendTensors call() const {
    return {k_new.view(),   v_new.view(), k_cache.view(),          v_cache.view(),
            seqlens.view(), table.view(), {cos.view(), sin.view()}};
  }

  std::string message(const AppendTensors& t) const {
    const auto k_before = k_cache.memory(), v_before = v_cache.memory();
    try {
      append_kv(t);
    } catch (const Error& error) {
      EXPECT_TRUE(k_cache.memory() == k_before && v_cache.memory() == v_before) << "written before it was refused";
      return error.what();
    }
    return "";
  }

  Array k_new{DType::kFp32, {2, 3, 1, 4}}, v_new{DType::kFp32, {2, 3, 1, 4}};
  Array k_cache{DType::kFp32, {6, 2, 1, 4}}, v_cache{DType::kFp32, {6, 2, 1, 4}};
  Array seqlens{DType::kInt32, {2}}, table{DType::kInt32, {2, 3}};
  Array cos{DType::kFp32, {5, 2}}, sin{DType::kFp32, {5, 2}};
};

TEST_F(AppendRefusalTest, Valid) { EXPECT_EQ(message(call()), ""); }

TEST_F(AppendRefusalTest, Missing) {
  AppendTensors t = call();
  t.seqlens_k = {};
  EXPECT_EQ(message(t), "seqlens_k: not given; must be given");
  t = call();
  t.rotary.sin = {};
  EXPECT_EQ(message(t), "sin: not given; must come with the other of cos and sin");
}

TEST_F(AppendRefusalTest, ShapesAndTypes) {
  AppendTensors t = call();
  t.v_new.shape[1] = 2;
  EXPECT_EQ(message(t),
            "v_new: shape (2, 2, 1, 4); must be (B, S_new, Hkv, Dv) with B = 2 as in k_new, S_new = 3 as in k_new, "
            "Hkv = 1 as in k_new");
  t = call();
  t.block_table = {};
  EXPECT_EQ(message(t),
            "k_cache: shape (6, 2, 1, 4); must be (B, Sk, Hkv, D) with B = 2 as in k_new, Hkv = 1 as in k_new, D = "
            "4 as in k_new");
  t = call();
  t.v_cache.dtype = DType::kFp16;
  EXPECT_EQ(message(t), "v_cache: type fp16; must be fp32, the type of k_new");
  t = call();
  t.v_cache.data = t.k_cache.data;
  EXPECT_EQ(message(t), "k_cache: shares memory with v_cache; must have memory of its own, as it is written");
}

TEST_F(AppendRefusalTest, Lengths) {
  seqlens.fill({1, 4});
  EXPECT_EQ(message(call()),
            "seqlens_k[1]: 4; must be from 0 to 3, as 3 new tokens go behind it and block_table holds 6");
  seqlens.fill({-1, 2});
  EXPECT_EQ(message(call()),
            "seqlens_k[0]: -1; must be from 0 to 3, as 3 new tokens go behind it and block_table holds 6");
  seqlens.fill({1, 3});
  EXPECT_EQ(message(call()),
            "seqlens_k[1]: 3, with 3 tokens behind it; must be from 0 to 2, as cos and sin have 5 positions");
}

TEST_F(AppendRefusalTest, Pages) {
  table.fill({0, 1, 2, -1, 6, 5});  // the second sequence, of length 2, starts in its second page
  EXPECT_EQ(message(call()), "block_table[1, 1]: 6; must be from 0 to 5, as k_cache has 6 pages");
  table.fill({0, 1, 2, -1, 1, 5});
  EXPECT_EQ(message(call()),
            "block_table[1, 1]: 1, the page of block_table[0, 1]; must be another, as new tokens of both would "
            "go to its row 0");
  table.fill({0, 1, -1, 0, 4, 5});  // page 0 is shared by what stood before: fine
  EXPECT_EQ(message(call()), "");
}

TEST_F(AppendRefusalTest, NothingNew) {
  AppendTensors t = call();
  t.k_new = view(nullptr, DType::kFp32, {2, 0, 1, 4});
  t.v_new = view(nullptr, DType::kFp32, {2, 0, 1, 4});
  const auto before = k_cache.memory();
  EXPECT_EQ(message(t), "");
  EXPECT_EQ(k_cache.memory(), before);
}

}  // namespace
}  // namespace splitq::testing
