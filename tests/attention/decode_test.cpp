// The life of a KV cache: append new keys (rotated on the way), rotate the query, attend; against the oracle on
// the same cache put together by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/rotary.hpp"
#include "support/run_case.hpp"
#include "support/seed.hpp"

namespace splitq::testing {
namespace {

struct Cache {
  const char* name;
  std::int64_t page_size;  // 0: (B, Sk, Hkv, D)
  Layout layout;
};

constexpr std::int64_t kNew = 3;
const Lengths kOld = {0, 17, 60};

AttentionCase decode_case(DType dtype, const Cache& cache) {
  AttentionCase c;
  c.dtype = dtype, c.batch = 3, c.heads_q = 4, c.heads_kv = 2, c.seqlen_q = kNew, c.seqlen_k = 70;
  c.head_dim = 24, c.head_dim_v = 20, c.page_size = cache.page_size, c.causal = true, c.backward = false;
  for (const std::int64_t old : kOld) c.used_k.push_back(old + kNew);
  c.layout_k = c.layout_v = cache.layout;
  return c;
}

/// The rows that arrive, (B, kNew, Hkv, dim), taken out of the cache, where NaN stays behind.
oracle::Array take_new_rows(const oracle::Problem& pr, oracle::Array& cache) {
  const std::int64_t heads = cache.shape[1], dim = cache.shape[2];
  oracle::Array rows({pr.batch, kNew, heads, dim});
  for (std::int64_t b = 0; b < pr.batch; ++b)
    for (std::int64_t s = 0; s < kNew; ++s)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t d = 0; d < dim; ++d) {
          double& x = cache(pr.row_k(b, kOld[b] + s), h, d);
          rows(b, s, h, d) = x;
          x = std::numeric_limits<double>::quiet_NaN();
        }
  return rows;
}

struct Angles {
  oracle::Array cos{{80, 8}}, sin{{80, 8}};
  Angles() {
    for (std::int64_t position = 0; position < 80; ++position)
      for (std::int64_t r = 0; r < 8; ++r) {
        const double angle = static_cast<double>(position) * std::pow(10000.0, -static_cast<double>(r) / 8);
        cos(position, r) = oracle::round_to(oracle::kFp32, std::cos(angle));
        sin(position, r) = oracle::round_to(oracle::kFp32, std::sin(angle));
      }
  }
};

/// Equal but for one rounding to the type, and those of a rotation in fp32.
void expect_same(const oracle::Array& got, const oracle::Array& want, DType dtype) {
  const double spacing = std::ldexp(1.0, -format_of(dtype).mantissa_bits);
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    if (std::isnan(want.values[i])) {
      ASSERT_TRUE(std::isnan(got.values[i])) << i;
    } else {
      ASSERT_NEAR(got.values[i], want.values[i], spacing * std::max(1.0, std::abs(want.values[i])) + 1e-6) << i;
    }
  }
}

void PrintTo(const Cache& value, std::ostream* out) { *out << value.name; }

class Decode : public ::testing::TestWithParam<Cache> {};

TEST_P(Decode, AppendRotateAttend) {
  const Angles angles;
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    for (const bool interleaved : {false, true}) {
      const AttentionCase c = decode_case(dtype, GetParam());
      SCOPED_TRACE(to_string(c));
      const oracle::Problem whole = make_inputs(c, next_seed());
      oracle::Problem before = whole;
      const oracle::Array k_new = take_new_rows(whole, before.k), v_new = take_new_rows(whole, before.v);
      CallTensors call(c, before);
      const Tensor k_rows(dtype, k_new, k_new.shape, Layout::kGapped), v_rows(dtype, v_new, v_new.shape);
      const Tensor old(DType::kInt32, kOld, {3});
      const Tensor cos(DType::kFp32, angles.cos, angles.cos.shape), sin(DType::kFp32, angles.sin, angles.sin.shape);
      const Rotary rotary{cos.view(), sin.view(), interleaved};
      append_kv(
          {k_rows.view(), v_rows.view(), call.k.view(), call.v.view(), old.view(), call.block_table.view(), rotary});
      apply_rotary(call.q.view(), call.q.view(), rotary, old.view());

      oracle::Problem after = whole;
      for (std::int64_t b = 0; b < whole.batch; ++b)
        for (std::int64_t s = 0; s < kNew; ++s) {
          const std::int64_t position = kOld[b] + s;
          for (std::int64_t h = 0; h < c.heads_kv; ++h)
            oracle::rotate(after.k, after.row_k(b, position), h, angles.cos, angles.sin, position, interleaved);
          for (std::int64_t h = 0; h < c.heads_q; ++h)
            oracle::rotate(after.q, after.row_q(b, s), h, angles.cos, angles.sin, position, interleaved);
        }
      EXPECT_TRUE(call.k.guards_intact() && call.v.guards_intact() && call.q.guards_intact());
      expect_same(call.k.load(), after.k, dtype);
      expect_same(call.v.load(), after.v, dtype);
      expect_same(call.q.load(), after.q, dtype);

      // What follows is judged on the rows as they were stored.
      after.k.values = call.k.load().values, after.q.values = call.q.load().values;
      forward(call.q.view(), call.k.view(), call.v.view(), call.out.view(), call.options, call.softmax_lse.view());
      EXPECT_TRUE(accurate(c, after, results_of(call)));
    }
}

INSTANTIATE_TEST_SUITE_P(
    , Decode,
    ::testing::Values(Cache{"batched", 0, Layout::kContiguous}, Cache{"heads_first", 0, Layout::kHeadsFirst},
                      Cache{"gapped", 0, Layout::kGapped}, Cache{"pages_of_1", 1, Layout::kContiguous},
                      Cache{"pages_of_16", 16, Layout::kContiguous}, Cache{"pages_of_7_strided", 7, Layout::kStrided}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace splitq::testing
