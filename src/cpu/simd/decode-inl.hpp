// Forward for few query rows before many keys: a cache is read once, at the speed of memory.
//
// Lanes run along the head dimension, so that keys and values are read where they lie. Rows of one key/value head are taken
// four at a time: scores [keys][4] are a narrow panel (scores-inl.hpp). Anything that is not finite on the way sends the task
// to the tile kernel, which knows what to do with it.
#pragma once

#include "cpu/simd/forward-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace splitq::cpu::SPLITQ_ISA {

#if HWY_TARGET == HWY_SCALAR
inline constexpr auto decode = forward;
#else

inline constexpr std::int64_t kQuad = 4;
inline constexpr int kDotKeys = kTileRows / 2;  // keys at a time: kDotKeys * kQuad accumulators
inline constexpr int kOutVecs = kTileRows / 2;  // vectors of Dv at a time

struct DecodeQuad {
  PanelRows rows;
  RowState state;        // [kLanes]: four rows, repeated
  float* q = nullptr;    // [4][stride], scaled
  float* out = nullptr;  // [4][stride]
};

struct DecodeScratch {
  DecodeQuad* quads = nullptr;
  float* scores = nullptr;  // [tile_n][4], one vector more
  float* stage = nullptr;
  float* keep = nullptr;
  const std::byte** k = nullptr;  // rows of the block
  const std::byte** v = nullptr;

  void layout(Arena& arena, const Problem& p, const CpuPlan& plan) {
    const std::int64_t count = (plan.tile_m + kQuad - 1) / kQuad;
    quads = arena.take<DecodeQuad>(count);
    for (std::int64_t i = 0; i < count; ++i) {
      DecodeQuad unused;
      DecodeQuad& quad = quads == nullptr ? unused : *new (quads + i) DecodeQuad;
      quad.rows.layout(arena, kQuad);
      quad.state.layout(arena, kLanes);
      quad.q = arena.take<float>(kQuad * tile_stride(p.head_dim));
      quad.out = arena.take<float>(kQuad * tile_stride(p.head_dim_v));
    }
    scores = arena.take<float>(plan.tile_n * kQuad + kLanes);
    stage = arena.take<float>(plan.tile_n * kQuad + kLanes);
    keep = arena.take<float>(plan.tile_n * kQuad + kLanes);
    k = arena.take<const std::byte*>(plan.tile_n);
    v = arena.take<const std::byte*>(plan.tile_n);
  }
};

/// Adds up the 128-bit blocks of a vector.
template <class D>
HWY_INLINE hn::Vec<hn::CappedTag<float, 4>> sum_of_blocks(D /*d*/, hn::Vec<D> x) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return x;
  } else {
    const hn::Half<D> half;
    return sum_of_blocks(half, hn::Add(hn::LowerHalf(half, x), hn::UpperHalf(half, x)));
  }
}

/// a[0]+a[2], b[0]+b[2], a[1]+a[3], b[1]+b[3] in each 128-bit block.
HWY_INLINE Vec add_pairs(Vec a, Vec b) { return hn::Add(hn::InterleaveLower(kF, a, b), hn::InterleaveUpper(kF, a, b)); }

/// Four dot products' partial sums to one block of four sums.
HWY_INLINE hn::Vec<hn::CappedTag<float, 4>> sum_quad(const Vec (&x)[kQuad]) {
  return sum_of_blocks(kF, add_pairs(add_pairs(x[0], x[2]), add_pairs(x[1], x[3])));
}

/// scores[key][row] = q[row] · k[key] for kKeys keys.
template <int kKeys, class Storage>
HWY_INLINE void dot_keys(const std::byte* const* k, const float* HWY_RESTRICT q, std::int64_t q_stride,
                         std::int64_t dim, float* HWY_RESTRICT scores) {
  const Storage* row[kKeys];
  Vec sum[kKeys][kQuad];
#pragma GCC unroll 4
  for (int j = 0; j < kKeys; ++j) {
    row[j] = reinterpret_cast<const Storage*>(k[j]);
#pragma GCC unroll 4
    for (int r = 0; r < kQuad; ++r) sum[j][r] = hn::Zero(kF);
  }
  std::int64_t d = 0;
  for (; d + kLanes <= dim; d += kLanes) {
    Vec key[kKeys];
#pragma GCC unroll 4
    for (int j = 0; j < kKeys; ++j) key[j] = load_vector(row[j] + d);
#pragma GCC unroll 4
    for (int r = 0; r < kQuad; ++r) {
      const Vec x = hn::LoadU(kF, q + r * q_stride + d);
#pragma GCC unroll 4
      for (int j = 0; j < kKeys; ++j) sum[j][r] = hn::MulAdd(x, key[j], sum[j][r]);
    }
  }
#pragma GCC unroll 4
  for (int j = 0; j < kKeys; ++j) {
    hn::StoreU(sum_quad(sum[j]), hn::CappedTag<float, 4>(), scores + j * kQuad);
    for (std::int64_t t = d; t < dim; ++t) {
      for (int r = 0; r < kQuad; ++r) scores[j * kQuad + r] += q[r * q_stride + t] * to_float(row[j][t]);
    }
  }
}

/// out[row] = out[row] * factor[row] + sum over keys of p[key][row] * v[key], kVecs vectors of the head dimension.
template <int kVecs, class Storage>
HWY_INLINE void add_values(const std::byte* const* v, std::int64_t keys, std::int64_t d, const float* HWY_RESTRICT p,
                           const float* factor, float* HWY_RESTRICT out, std::int64_t out_stride) {
  Vec sum[kQuad][kVecs];
#pragma GCC unroll 4
  for (int r = 0; r < kQuad; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < kVecs; ++n) {
      sum[r][n] = hn::Mul(hn::Set(kF, factor[r]), hn::LoadU(kF, out + r * out_stride + d + n * kLanes));
    }
  }
  for (std::int64_t j = 0; j < keys; ++j) {
    const Storage* row = reinterpret_cast<const Storage*>(v[j]) + d;
    Vec value[kVecs];
#pragma GCC unroll 4
    for (int n = 0; n < kVecs; ++n) value[n] = load_vector(row + n * kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < kQuad; ++r) {
      const Vec x = hn::Set(kF, p[j * kQuad + r]);
#pragma GCC unroll 4
      for (int n = 0; n < kVecs; ++n) sum[r][n] = hn::MulAdd(x, value[n], sum[r][n]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kQuad; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < kVecs; ++n) hn::StoreU(sum[r][n], kF, out + r * out_stride + d + n * kLanes);
  }
}

template <class Storage>
void decode_scores(const std::byte* const* k, std::int64_t keys, const float* q, std::int64_t q_stride,
                   std::int64_t dim, float* scores) {
  std::int64_t j = 0;
  for (; j + kDotKeys <= keys; j += kDotKeys) dot_keys<kDotKeys, Storage>(k + j, q, q_stride, dim, scores + j * kQuad);
  for (; j < keys; ++j) dot_keys<1, Storage>(k + j, q, q_stride, dim, scores + j * kQuad);
}

template <class Storage>
void decode_values(const std::byte* const* v, std::int64_t keys, std::int64_t dim, const float* p,
                   const float* factor, float* out, std::int64_t out_stride) {
  std::int64_t d = 0;
  for (; d + kOutVecs * kLanes <= dim; d += kOutVecs * kLanes) add_values<kOutVecs, Storage>(v, keys, d, p, factor, out, out_stride);
  for (; d + kLanes <= dim; d += kLanes) add_values<1, Storage>(v, keys, d, p, factor, out, out_stride);
  for (; d < dim; ++d) {
    for (int r = 0; r < kQuad; ++r) {
      float sum = factor[r] * out[r * out_stride + d];
      for (std::int64_t j = 0; j < keys; ++j) {
        sum += p[j * kQuad + r] * to_float(reinterpret_cast<const Storage*>(v[j])[d]);
      }
      out[r * out_stride + d] = sum;
    }
  }
}

/// Are `count` values (and the rest of the last vector) finite?
inline bool all_finite(const float* x, std::int64_t count) {
  Vec sum = hn::Zero(kF);
  for (std::int64_t f = 0; f < count; f += kLanes) sum = hn::MulAdd(hn::LoadU(kF, x + f), hn::Zero(kF), sum);
  return hn::AllTrue(kF, hn::Eq(sum, hn::Zero(kF)));
}

/// The softmax step of a narrow panel: rows repeat in a vector, the maximum is combined over the repetitions, the sum not yet.
inline void narrow_softmax_step(std::int64_t keys, float* HWY_RESTRICT x, const RowState& state) {
  HWY_ALIGN float top[kLanes];
  const std::int64_t count = keys * kQuad;
  Vec highest = hn::LoadU(kF, state.max);
  const Vec old = highest;
  for (std::int64_t f = 0; f < count; f += kLanes) highest = hn::Max(highest, hn::LoadU(kF, x + f));
  hn::Store(highest, kF, top);
  for (std::int64_t r = 0; r < kQuad; ++r) {
    for (std::int64_t l = r + kQuad; l < kLanes; l += kQuad) top[r] = top[l] > top[r] ? top[l] : top[r];
    for (std::int64_t l = r; l < kLanes; l += kQuad) state.max[l] = top[r];
  }
  highest = hn::LoadU(kF, state.max);
  const Vec reference = hn::IfThenZeroElse(hn::Eq(highest, hn::Set(kF, kMinusInfinity)), highest);
  const Vec factor = exp2_nonpositive(hn::Sub(old, reference));
  hn::StoreU(factor, kF, state.factor);
  Vec sum = hn::Mul(hn::LoadU(kF, state.sum), factor);
  for (std::int64_t f = 0; f < count; f += kLanes) {
    const Vec p = exp2_nonpositive(hn::Sub(hn::LoadU(kF, x + f), reference));
    sum = hn::Add(sum, p);
    hn::StoreU(p, kF, x + f);
  }
  hn::StoreU(sum, kF, state.sum);
}

inline void decode(const Call& call, const Task& task, Arena arena) {
  const Problem& p = call.problem;
  const Logits logits(p);
  const std::int64_t q_stride = tile_stride(p.head_dim);
  const std::int64_t out_stride = tile_stride(p.head_dim_v);
  const std::int64_t rows = task.row_end - task.row_begin;
  const std::int64_t count = (rows + kQuad - 1) / kQuad;
  Arena own = arena;
  DecodeScratch s;
  s.layout(own, p, call.plan);

  for (std::int64_t i = 0; i < count; ++i) {
    DecodeQuad& quad = s.quads[i];
    assign_rows(call, task, i * kQuad, quad.rows);
    load_query_rows(call, task, call.tensors.q, quad.rows, p.head_dim, quad.q, q_stride);
    for (std::int64_t x = 0; x < kQuad * q_stride; ++x) quad.q[x] *= logits.query_scale;
    for (std::int64_t x = 0; x < kQuad * out_stride; ++x) quad.out[x] = 0.0f;
    quad.state.reset(kLanes);
  }

  const Rows k_rows = call.keys(call.tensors.k, task.sequence, task.head_kv);
  const Rows v_rows = call.keys(call.tensors.v, task.sequence, task.head_kv);
  const Band band = call.band(task.sequence);
  const KeyRange range = task_keys(call, task);
  bool finite = true;
  for (std::int64_t j0 = range.begin; finite && j0 < range.end; j0 += call.plan.tile_n) {
    const std::int64_t tile_end = j0 + call.plan.tile_n < range.end ? j0 + call.plan.tile_n : range.end;
    for (std::int64_t j = j0; j < tile_end; ++j) {
      s.k[j - j0] = k_rows.row(j);
      s.v[j - j0] = v_rows.row(j);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      DecodeQuad& quad = s.quads[i];
      std::int64_t j1 = tile_end;
      const Visible visible = place(band, logits, j0, &j1, quad.rows);
      if (visible == Visible::kNone) continue;
      const std::int64_t keys = j1 - j0;
      const std::int64_t count_scores = keys * kQuad;
      with_storage_type(k_rows.dtype, [&](auto x) { decode_scores<decltype(x)>(s.k, keys, quad.q, q_stride, p.head_dim, s.scores); });
      hn::StoreU(hn::Zero(kF), kF, s.scores + count_scores);
      finite = finite && all_finite(s.scores, count_scores);
      const bool some = visible == Visible::kSome;
      if (logits.staged) load_stage(call, task.sequence, quad.rows, j0, keys, s.stage);
      if (some || logits.per_score()) to_logits(logits, quad.rows, some, keys, s.scores, s.stage, nullptr);
      hn::StoreU(hn::Set(kF, kMinusInfinity), kF, s.scores + count_scores);  // the rest of the last vector
      narrow_softmax_step(keys, s.scores, quad.state);
      if (p.dropout > 0) {
        load_keep(call, task.sequence, quad.rows, j0, keys, s.keep);
        multiply(count_scores, s.scores, s.keep, false);
      }
      with_storage_type(v_rows.dtype, [&](auto x) {
        decode_values<decltype(x)>(s.v, keys, p.head_dim_v, s.scores, quad.state.factor, quad.out, out_stride);
      });
    }
  }
  for (std::int64_t i = 0; finite && i < count; ++i) {
    finite = all_finite(s.quads[i].out, kQuad * out_stride) && all_finite(s.quads[i].state.sum, kLanes);
  }
  if (!finite) return forward(call, task, arena);

  for (std::int64_t r = 0; r < rows; ++r) {
    const DecodeQuad& quad = s.quads[r / kQuad];
    float sum = 0.0f;
    for (std::int64_t l = r % kQuad; l < kLanes; l += kQuad) sum += quad.state.sum[l];
    emit_row(call, task, task.row_begin + r, quad.out + r % kQuad * out_stride, quad.state.max[r % kQuad], sum, false);
  }
}

#endif

}  // namespace splitq::cpu::SPLITQ_ISA
HWY_AFTER_NAMESPACE();
