// From scores to logits on accumulator fragments: softcap, ALiBi, bias, masks (docs/semantics.md, steps 2 to 4), dropout.
#pragma once

#include "device/convert.hpp"
#include "device/math.hpp"
#include "device/memory.hpp"
#include "parts/softmax.hpp"
#include "shared/forward_params.hpp"

namespace splitq::parts {

using namespace splitq::device;

/// One of a thread's rows: which query, what it sees of the keys, and where its own parameters are.
struct QueryRow {
  int query;  // -1: none
  int head;
  int begin, end;  // visible keys
  float slope;
};

SPLITQ_DEVICE float magnitude(float x) { return as_float(as_u32(x) & 0x7FFFFFFFu); }

/// tanh by 2^x: exact to a few units in the last place; saturates.
SPLITQ_DEVICE float tanh_by_ex2(float x) {
  const float a = magnitude(x);
  const float e = ex2_approx_ftz(a * -2.8853900817779268f);  // exp(-2a)
  const float large = (1.0f - e) * rcp_approx(1.0f + e);
  const float s = x * x;
  const float small = a + a * s * (-1.0f / 3.0f + s * (2.0f / 15.0f + s * (-17.0f / 315.0f)));
  const float y = a < 0.15f ? small : large;
  return x < 0.0f ? -y : y;
}

template <class C>
SPLITQ_DEVICE float bias_at(const C& /*config*/, const ForwardParams& p, long long at, bool fp16) {
  if (p.bias_is_fp32 != 0) return ld_global(static_cast<const float*>(p.bias) + at);
  const u16 bits = ld_global(static_cast<const u16*>(p.bias) + at);
  return fp16 ? to_float<Fp16>(bits) : to_float<Bf16>(bits);
}

/// Where logits are finite: docs/semantics.md, "Very large logits".
inline constexpr float kLargestLogit = 8.5070591730234616e37f;  // 2^126, in units of log2
SPLITQ_DEVICE float bounded(float x, float bound) { return x > bound ? bound : x < -bound ? -bound : x; }  // NaN stays

/// Scores of kTiles x kColumns fragments to logits; hidden keys become -inf. row_at(m, h) is
/// the row of half h of tile m; `column` is the key of the thread's first element.
template <class Config, Config kConfig, bool kFp16, class RowAt, int kTiles, int kColumns>
SPLITQ_DEVICE void to_logits(const ForwardParams& p, int batch, const RowAt& row_at, int off, int column,
                             bool some_hidden, float (&s)[kTiles][kColumns][4]) {
  SPLITQ_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    SPLITQ_UNROLL
    for (int h = 0; h < 2; ++h) {
      const QueryRow row = row_at(m, h);
      long long bias = 0, mask = 0;
      if constexpr (kConfig.bias) {
        bias = batch * p.bias_stride.batch + row.head * p.bias_stride.head + row.query * p.bias_stride.query;
      }
      if constexpr (kConfig.mask) {
        mask = batch * p.mask_stride.batch + row.head * p.mask_stride.head + row.query * p.mask_stride.query;
      }
      SPLITQ_UNROLL
      for (int n = 0; n < kColumns; ++n) {
        SPLITQ_UNROLL
        for (int i = 0; i < 2; ++i) {
          float& x = s[m][n][2 * h + i];
          const int key = column + 8 * n + i;
          bool hidden = some_hidden && (key < row.begin || key >= row.end);
          if constexpr (kConfig.transformed()) x *= p.scale;
          if constexpr (kConfig.softcap) x = p.softcap * tanh_by_ex2(x / p.softcap);
          if constexpr (kConfig.bias) {
            if (!hidden && row.query >= 0) {
              x += bias_at(kConfig, p, bias + key * p.bias_stride.key, kFp16);
            }
          }
          if constexpr (kConfig.alibi) x -= row.slope * magnitude(static_cast<float>(row.query + off - key));
          if constexpr (kConfig.transformed()) {
            if (x != kMinusInfinity) x = bounded(x, kLargestLogit * 0.69314718f);
          }
          if constexpr (kConfig.mask) {
            hidden = hidden || (row.query >= 0 && ld_global(p.mask + mask + key * p.mask_stride.key) == 0);
          }
          if (hidden) x = kMinusInfinity;
        }
      }
    }
  }
}

/// p <- p keep. The factor 1 / (1 - r) waits for the end: with it, a p of 16 bits could overflow.
template <class RowAt, int kTiles, int kColumns>
SPLITQ_DEVICE void drop(const ForwardParams& p, int batch, const RowAt& row_at, int column,
                        float (&s)[kTiles][kColumns][4]) {
  SPLITQ_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    SPLITQ_UNROLL
    for (int h = 0; h < 2; ++h) {
      const QueryRow row = row_at(m, h);
      SPLITQ_UNROLL
      for (int n = 0; n < kColumns; ++n) {
        const u32 key = static_cast<u32>(column + 8 * n);  // even: both elements are of one quad of keys
        const PhiloxWords words = dropout_words(p.dropout, key / 4, static_cast<u32>(row.query),
                                                static_cast<u32>(batch * p.heads_q + row.head));
        SPLITQ_UNROLL
        for (int i = 0; i < 2; ++i) {
          const u32 word = key % 4 == 0 ? words.w[i] : words.w[2 + i];
          if (word < p.dropout.threshold) s[m][n][2 * h + i] = 0.0f;
        }
      }
    }
  }
}

}  // namespace splitq::parts
