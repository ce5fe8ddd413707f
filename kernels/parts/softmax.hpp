// The online softmax on accumulator fragments (FlashAttention-2, algorithm 1, lines 8-10).
//
// Of a 16-row tile a thread holds row g in the even pair of each fragment and row g + 8 in the odd one (g = lane / 4), and
// shares each row with the three other lanes of its quad.
#pragma once

#include "device/convert.hpp"
#include "device/math.hpp"
#include "device/thread.hpp"

namespace splitq::parts {

using namespace splitq::device;

inline constexpr float kMinusInfinity = __builtin_bit_cast(float, 0xFF800000u);
inline constexpr float kLog2e = 1.4426950408889634f, kLn2 = 0.69314718055994531f;

/// Over groups of kLanes neighbouring lanes.
template <u32 kLanes>
SPLITQ_DEVICE float lanes_max(float x) {
  SPLITQ_UNROLL
  for (u32 mask = 1; mask < kLanes; mask *= 2) x = max(x, shfl_sync_bfly(x, mask));
  return x;
}
template <u32 kLanes>
SPLITQ_DEVICE float lanes_sum(float x) {
  SPLITQ_UNROLL
  for (u32 mask = 1; mask < kLanes; mask *= 2) x += shfl_sync_bfly(x, mask);
  return x;
}
inline constexpr u32 kQuad = 4;  // lanes that share a row of a fragment

/// Where logits are finite: docs/semantics.md, "Very large logits".
inline constexpr float kLargestLogit = 8.5070591730234616e37f;  // 2^126, in units of log2
SPLITQ_DEVICE float bounded(float x, float bound) { return x > bound ? bound : x < -bound ? -bound : x; }  // NaN stays

/// What a row ends with: the factor on its unnormalised output, and its log-sum-exp.
struct RowEnd {
  float factor, softmax_lse;
};

/// The one division, and the sink (-inf: none). `sum` of exponentials against the natural logit `reference`; `share` is what
/// brings the output to the same reference.
SPLITQ_DEVICE RowEnd end_row(float sum, float share, float reference, float sink) {
  if (sink != kMinusInfinity) {
    sink = bounded(sink, kLargestLogit * kLn2);
    const float higher = sum == 0.0f || sink > reference ? sink : reference;
    const float shift = sum == 0.0f ? 0.0f : ex2_approx_ftz((reference - higher) * kLog2e);
    share *= shift;
    sum = sum * shift + ex2_approx_ftz((sink - higher) * kLog2e);
    reference = higher;
  }
  if (sum == 0.0f) return {0.0f, kMinusInfinity};
  return {share / sum, fma_rn(lg2_approx(sum), kLn2, reference)};
}

/// Statistics of a warp's rows: kTiles tiles of 16, two rows a thread. `sum` is this thread's part of the row sum.
template <int kTiles>
struct SoftmaxState {
  float max[kTiles][2];
  float sum[kTiles][2];
  bool large = false;  // a row of the warp has a reference that must not be rounded

  SPLITQ_DEVICE void reset() {
    SPLITQ_UNROLL
    for (int m = 0; m < kTiles; ++m) {
      SPLITQ_UNROLL
      for (int h = 0; h < 2; ++h) max[m][h] = kMinusInfinity, sum[m][h] = 0.0f;
    }
  }
};

/// This thread's largest score of each of its rows.
template <int kTiles, int kColumns>
SPLITQ_DEVICE void own_maxima(const float (&s)[kTiles][kColumns][4], float (&top)[kTiles][2]) {
  SPLITQ_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    SPLITQ_UNROLL
    for (int h = 0; h < 2; ++h) {
      float x = max(s[m][0][2 * h], s[m][0][2 * h + 1]);
      SPLITQ_UNROLL
      for (int n = 1; n < kColumns; ++n) x = max(x, max(s[m][n][2 * h], s[m][n][2 * h + 1]));
      top[m][h] = x;
    }
  }
}

/// Up to here a reference may be rounded before it is subtracted: what the rounding leaves is less than 2^-4, the same for the
/// whole row, and finish() takes it back.
inline constexpr float kLargeReference = 1048576.0f;

/// log2 of what rounding the reference has left out of a row's exponentials.
SPLITQ_DEVICE float left_out(float highest, float unit, bool large) {
  return large || highest == kMinusInfinity ? 0.0f : fma_rn(highest, -unit, highest * unit);
}

/// Has a row of this warp a reference that must not be rounded?
template <int kTiles>
SPLITQ_DEVICE bool any_large(const SoftmaxState<kTiles>& state, float unit) {
  bool large = false;
  SPLITQ_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    SPLITQ_UNROLL
    for (int h = 0; h < 2; ++h) {
      const float reference = state.max[m][h] * unit;
      large = large || (reference > kLargeReference) || (reference < -kLargeReference && reference != kMinusInfinity);
    }
  }
  return vote_any(large);
}

/// Moves the reference to the rows' maximum, and the output and the row sum with it.
template <int kTiles, int kOut>
SPLITQ_DEVICE void rescale(const float (&top)[kTiles][2], float unit, SoftmaxState<kTiles>& state,
                           float (&out)[kTiles][kOut][4]) {
  SPLITQ_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    SPLITQ_UNROLL
    for (int h = 0; h < 2; ++h) {
      const float highest = max(state.max[m][h], lanes_max<kQuad>(top[m][h]));
      // No key yet: -inf - -inf would be NaN; the sum and the output are still 0.
      const float factor = highest == kMinusInfinity ? 1.0f : ex2_approx_ftz((state.max[m][h] - highest) * unit);
      state.max[m][h] = highest;
      state.sum[m][h] *= factor;
      SPLITQ_UNROLL
      for (int n = 0; n < kOut; ++n) out[m][n][2 * h] *= factor, out[m][n][2 * h + 1] *= factor;
    }
  }
  state.large = any_large(state, unit);
}

/// Scores to p = 2^(s unit - reference), in place; adds them to the row sums. `kLarge`: the difference first, which is exact.
template <bool kLarge, int kTiles, int kColumns>
SPLITQ_DEVICE void exponentials(float (&s)[kTiles][kColumns][4], float unit, SoftmaxState<kTiles>& state) {
  SPLITQ_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    SPLITQ_UNROLL
    for (int h = 0; h < 2; ++h) {
      const float highest = state.max[m][h] == kMinusInfinity ? 0.0f : state.max[m][h];
      const float reference = highest * unit;
      SPLITQ_UNROLL
      for (int n = 0; n < kColumns; ++n) {
        SPLITQ_UNROLL
        for (int i = 2 * h; i < 2 * h + 2; ++i) {
          const float x = kLarge ? (s[m][n][i] - highest) * unit : fma_rn(s[m][n][i], unit, -reference);
          s[m][n][i] = ex2_approx_ftz(x);
          state.sum[m][h] += s[m][n][i];
        }
      }
    }
  }
}

}  // namespace splitq::parts
