// One step of the online softmax (Milakov & Gimelshein 2018; FlashAttention-2, algorithm 1, lines 8-10), lane by lane.
#pragma once

#include "cpu/simd/scores-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace splitq::cpu::SPLITQ_ISA {

/// Per lane: running maximum of the scores (-inf before the first visible key), running sum, and what the step
/// does to the output so far.
struct RowState {
  float* max = nullptr;
  float* sum = nullptr;
  float* factor = nullptr;

  void layout(Arena& arena, std::int64_t lanes) {
    max = arena.take<float>(lanes);
    sum = arena.take<float>(lanes);
    factor = arena.take<float>(lanes);
  }
  void reset(std::int64_t lanes) const {
    for (std::int64_t l = 0; l < lanes; ++l) max[l] = kMinusInfinity, sum[l] = 0.0f, factor[l] = 0.0f;
  }
};

/// Logits [keys][kVecs vectors of the panel's width] to p = exp2((x - max) unit) in place. The
/// difference comes first: it is exact where it matters, however large the logits.
/// `floor`: p of a visible key is at least the smallest normal number, so that p == 0 says "hidden" and nothing else.
template <int kVecs>
void softmax_columns(std::int64_t keys, float* HWY_RESTRICT x, std::int64_t stride, float* HWY_RESTRICT max,
                     float* HWY_RESTRICT sum, float* HWY_RESTRICT factor, float unit, bool floor) {
  const Vec units = hn::Set(kF, unit);
  Vec top[kVecs], total[kVecs];
  for (int n = 0; n < kVecs; ++n) top[n] = hn::LoadU(kF, max + n * kLanes);
  for (std::int64_t k = 0; k < keys; ++k) {
    for (int n = 0; n < kVecs; ++n) top[n] = hn::Max(top[n], hn::LoadU(kF, x + k * stride + n * kLanes));
  }
  const Vec none = hn::Set(kF, kMinusInfinity);
  for (int n = 0; n < kVecs; ++n) {
    const Vec old = hn::LoadU(kF, max + n * kLanes);
    hn::StoreU(top[n], kF, max + n * kLanes);
    // No key yet: any reference will do, but -inf - -inf.
    top[n] = hn::IfThenZeroElse(hn::Eq(top[n], none), top[n]);
    const Vec change = exp2_nonpositive(hn::Mul(hn::Sub(old, top[n]), units));
    hn::StoreU(change, kF, factor + n * kLanes);
    total[n] = hn::Mul(hn::LoadU(kF, sum + n * kLanes), change);
  }
  const Vec tiny = hn::Set(kF, __FLT_MIN__);
  for (std::int64_t k = 0; k < keys; ++k) {
    for (int n = 0; n < kVecs; ++n) {
      float* at = x + k * stride + n * kLanes;
      const Vec logit = hn::LoadU(kF, at);
      Vec p = exp2_nonpositive(hn::Mul(hn::Sub(logit, top[n]), units));
      if (floor) p = hn::IfThenElse(hn::Eq(logit, none), p, hn::Max(tiny, p));
      total[n] = hn::Add(total[n], p);
      hn::StoreU(p, kF, at);
    }
  }
  for (int n = 0; n < kVecs; ++n) hn::StoreU(total[n], kF, sum + n * kLanes);
}

/// A panel of full width, or of fewer vectors where fewer rows are used.
inline void softmax_step(std::int64_t vecs, std::int64_t keys, float* x, std::int64_t stride, const RowState& state,
                         float unit, bool floor) {
  const auto columns = vecs == 3 ? softmax_columns<3> : vecs == 2 ? softmax_columns<2> : softmax_columns<1>;
  columns(keys, x, stride, state.max, state.sum, state.factor, unit, floor);
}

/// FlashAttention-1's step: the output is a quotient after every tile. Turns the factor and p into those of normalised
/// outputs: O <- O * (factor * sum_before / sum) + (p / sum) V.
inline void normalise_step(std::int64_t vecs, std::int64_t keys, float* x, std::int64_t stride, const RowState& state,
                           const float* sum_before) {
  for (std::int64_t n = 0; n < vecs * kLanes; n += kLanes) {
    const Vec sum = hn::LoadU(kF, state.sum + n);
    const Vec inverse = hn::IfThenElse(hn::Eq(sum, hn::Zero(kF)), sum, hn::Div(hn::Set(kF, 1.0f), sum));
    const Vec before = hn::LoadU(kF, sum_before + n);
    hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(kF, state.factor + n), before), inverse), kF, state.factor + n);
    for (std::int64_t k = 0; k < keys; ++k) {
      hn::StoreU(hn::Mul(hn::LoadU(kF, x + k * stride + n), inverse), kF, x + k * stride + n);
    }
  }
}

/// x <- x * factor; a hidden key's 0 stays 0, whatever the factor is. `floor` as in softmax_columns.
inline void multiply(std::int64_t count, float* HWY_RESTRICT x, const float* HWY_RESTRICT factor, bool floor) {
  for (std::int64_t f = 0; f < count; f += kLanes) {
    const Vec before = hn::LoadU(kF, x + f);
    Vec y = hn::Mul(before, hn::LoadU(kF, factor + f));
    if (floor) y = hn::Max(hn::Set(kF, __FLT_MIN__), y);
    hn::StoreU(hn::IfThenZeroElse(hn::Eq(before, hn::Zero(kF)), y), kF, x + f);
  }
}

}  // namespace splitq::cpu::SPLITQ_ISA
HWY_AFTER_NAMESPACE();
