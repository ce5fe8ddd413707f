// From scores to logits: softcap, bias, ALiBi, masks (docs/semantics.md, steps 2 to 4), and dropout. For one score, and for
// accumulator fragments.
#pragma once

#include "device/math.hpp"
#include "parts/element.hpp"
#include "parts/rows.hpp"
#include "parts/softmax.hpp"
#include "shared/forward_params.hpp"

namespace splitq::parts {

/// What lies between a score and its logit. Where this is known to the compiler, nothing else is left of it.
struct LogitSteps {
  bool scaled;  // times p.scale
  bool softcap, bias, alibi, mask;
  bool bounded;  // to kLargestLogit
  bool poisons;  // an infinite score becomes NaN: it is a sum that overflowed, and must be found
};

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

/// Where a row has its bias, its mask and its slope.
struct LogitRow {
  QueryRow row;
  i64 bias, mask;
  float slope;
};

SPLITQ_DEVICE i64 row_offset(const BroadcastStrides& stride, int batch, const QueryRow& row) {
  return batch * stride.batch + row.head * stride.head + row.query * stride.query;
}

SPLITQ_DEVICE LogitRow logit_row(const ForwardParams& p, const LogitSteps& steps, int batch, const QueryRow& row) {
  LogitRow r{row, 0, 0, 0.0f};
  if (steps.bias) r.bias = row_offset(p.bias_stride, batch, row);
  if (steps.mask) r.mask = row_offset(p.mask_stride, batch, row);
  if (steps.alibi && row.query >= 0) {
    r.slope = ld_global(p.alibi_slopes + batch * p.alibi_batch_stride + row.head * p.alibi_head_stride);
  }
  return r;
}

/// A bias beyond this leaves no logit off its bound, whatever the score was; with it, no sum overflows.
inline constexpr float kLargestBias = 1.7014118346046923e38f;  // 2^127

/// The logit of a score; -inf: the key is hidden. `hidden`: it is, whatever its score.
template <Element kElement>
SPLITQ_DEVICE float logit_of(float score, const ForwardParams& p, const LogitSteps& steps, const LogitRow& r, int off,
                             int key, bool some_hidden) {
  bool hidden = some_hidden && (key < r.row.begin || key >= r.row.end);
  if (steps.poisons) score = fma_rn(score, 0.0f, score);
  float x = steps.scaled ? score * p.scale : score;
  if (steps.softcap) x = p.softcap * tanh_by_ex2(x / p.softcap);
  if (steps.bias && !hidden && r.row.query >= 0) {
    const i64 at = r.bias + key * p.bias_stride.key;
    const float bias =
        p.bias_is_fp32 != 0 ? load_element<Element::kFp32>(p.bias, at) : load_element<kElement>(p.bias, at);
    x += bias == kMinusInfinity ? bias : bounded(bias, kLargestBias);
  }
  if (steps.alibi) x -= r.slope * magnitude(static_cast<float>(r.row.query + off - key));
  if (steps.bounded && x != kMinusInfinity) x = bounded(x, kLargestLogit * kLn2);
  if (steps.mask) {
    hidden = hidden || (r.row.query >= 0 && ld_global(p.mask + r.mask + key * p.mask_stride.key) == 0);
  }
  if (hidden) x = kMinusInfinity;
  return x;
}

/// Scores of kTiles x kColumns fragments to logits. row_at(m, h) is the row of half h of tile m; `column` is the key of the
/// thread's first element.
template <Element kElement, class RowAt, int kTiles, int kColumns>
SPLITQ_DEVICE void to_logits(const ForwardParams& p, const LogitSteps& steps, int batch, const RowAt& row_at, int off,
                             int column, bool some_hidden, float (&s)[kTiles][kColumns][4]) {
  SPLITQ_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    SPLITQ_UNROLL
    for (int h = 0; h < 2; ++h) {
      const LogitRow r = logit_row(p, steps, batch, row_at(m, h));
      SPLITQ_UNROLL
      for (int n = 0; n < kColumns; ++n) {
        SPLITQ_UNROLL
        for (int i = 0; i < 2; ++i) {
          float& x = s[m][n][2 * h + i];
          const int key = column + 8 * n + i;
          x = logit_of<kElement>(x, p, steps, r, off, key, some_hidden);
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

/// Is the weight of one key kept?
SPLITQ_DEVICE bool kept(const ForwardParams& p, int batch, const QueryRow& row, int key) {
  const PhiloxWords words = dropout_words(p.dropout, static_cast<u32>(key) / 4, static_cast<u32>(row.query),
                                          static_cast<u32>(batch * p.heads_q + row.head));
  const int word = key % 4;  // selected, not indexed: an index would put the words into local memory
  return (word == 0 ? words.w[0] : word == 1 ? words.w[1] : word == 2 ? words.w[2] : words.w[3]) >= p.dropout.threshold;
}

}  // namespace splitq::parts
