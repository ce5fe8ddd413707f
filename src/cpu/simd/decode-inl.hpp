// Forward for few query rows before many keys: a cache is read once, at the speed of memory.
//
// Lanes run along the head dimension, so that keys and values are read where they lie, all heads of a task side by side. Rows of
// one key/value head are taken four at a time: scores [keys][4] are a narrow panel (scores-inl.hpp). Anything that is not finite
// on the way sends the task to the tile kernel, which knows what to do with it.
#pragma once

#include <algorithm>
#include <utility>

#include "cpu/simd/forward-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace splitq::cpu::SPLITQ_ISA {

/// The tile kernel for each of the task's heads.
inline void forward_heads(const Call& call, const Task& task, Arena arena) {
  Task head = task;
  for (head.heads = 1; head.head_kv < task.head_kv + task.heads; ++head.head_kv) forward(call, head, arena);
}

#if HWY_TARGET == HWY_SCALAR
inline constexpr auto decode = forward_heads;
#else

inline constexpr std::int64_t kQuad = 4;
inline constexpr int kDotKeys = kTileRows / 2;  // keys at a time: kDotKeys * kQuad accumulators
inline constexpr std::int64_t kBlockBytes = 128 * 1024;  // of keys and values: this block and the next fit a second-level cache
inline constexpr int kOutVecs = kTileRows / 2;  // vectors of Dv at a time

struct DecodeQuad {
  PanelRows rows;
  RowState state;        // [kLanes]: four rows, repeated
  float* q = nullptr;    // [4][stride], scaled
  float* out = nullptr;  // [4][stride]
};

/// Rows of a block of keys: where the task's first head has them.
struct BlockRows {
  const std::byte** k = nullptr;
  const std::byte** v = nullptr;

  void layout(Arena& arena, std::int64_t keys) {
    k = arena.take<const std::byte*>(keys);
    v = arena.take<const std::byte*>(keys);
  }
};

struct DecodeScratch {
  DecodeQuad* quads = nullptr;  // [heads][quads of a head]
  float* scores = nullptr;      // [tile_n][4], one vector more
  float* stage = nullptr;
  float* keep = nullptr;
  BlockRows now, next;

  void layout(Arena& arena, const Problem& p, const CpuPlan& plan) {
    const std::int64_t count = plan.decode_heads * ((plan.decode_rows + kQuad - 1) / kQuad);
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
    now.layout(arena, plan.tile_n);
    next.layout(arena, plan.tile_n);
  }
};

/// Asks for rows in the order in which they lie, a few cache lines at a time, while other work goes on.
class RowStream {
 public:
  RowStream(const std::byte* const* rows, std::int64_t count, std::int64_t bytes)
      : row_(rows), end_(rows + count), bytes_(bytes) {}

  HWY_INLINE void request(std::int64_t lines) {
    constexpr std::int64_t kLine = 64;
    for (; lines > 0 && row_ != end_; --lines) {
      __builtin_prefetch(*row_ + at_, 0, 2);  // for reading, into the second-level cache
      at_ += kLine;
      if (at_ >= bytes_) at_ = 0, ++row_;
    }
  }

 private:
  const std::byte* const* row_;
  const std::byte* const* end_;
  std::int64_t bytes_;
  std::int64_t at_ = 0;
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
HWY_INLINE void dot_keys(const std::byte* const* k, std::int64_t offset, const float* HWY_RESTRICT q, std::int64_t q_stride,
                         std::int64_t dim, float* HWY_RESTRICT scores) {
  const Storage* row[kKeys];
  Vec sum[kKeys][kQuad];
#pragma GCC unroll 4
  for (int j = 0; j < kKeys; ++j) {
    row[j] = reinterpret_cast<const Storage*>(k[j] + offset);
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
HWY_INLINE void add_values(const std::byte* const* v, std::int64_t offset, std::int64_t keys, std::int64_t d, const float* HWY_RESTRICT p,
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
    const Storage* row = reinterpret_cast<const Storage*>(v[j] + offset) + d;
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

/// Scores of a block of keys, `offset` bytes into each row. After each group of keys asks for `lines` lines of two streams.
template <class Storage>
void decode_scores(const std::byte* const* k, std::int64_t offset, std::int64_t keys, const float* q, std::int64_t q_stride,
                   std::int64_t dim, float* scores, RowStream& next_k, RowStream& next_v, std::int64_t lines) {
  std::int64_t j = 0;
  for (; j + kDotKeys <= keys; j += kDotKeys) {
    dot_keys<kDotKeys, Storage>(k + j, offset, q, q_stride, dim, scores + j * kQuad);
    next_k.request(lines);
    next_v.request(lines);
  }
  for (; j < keys; ++j) dot_keys<1, Storage>(k + j, offset, q, q_stride, dim, scores + j * kQuad);
}

template <class Storage>
void decode_values(const std::byte* const* v, std::int64_t offset, std::int64_t keys, std::int64_t dim, const float* p,
                   const float* factor, float* out, std::int64_t out_stride) {
  std::int64_t d = 0;
  for (; d + kOutVecs * kLanes <= dim; d += kOutVecs * kLanes) add_values<kOutVecs, Storage>(v, offset, keys, d, p, factor, out, out_stride);
  for (; d + kLanes <= dim; d += kLanes) add_values<1, Storage>(v, offset, keys, d, p, factor, out, out_stride);
  for (; d < dim; ++d) {
    for (int r = 0; r < kQuad; ++r) {
      float sum = factor[r] * out[r * out_stride + d];
      for (std::int64_t j = 0; j < keys; ++j) {
        sum += p[j * kQuad + r] * to_float(reinterpret_cast<const Storage*>(v[j] + offset)[d]);
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

/// A block's keys before one quad of rows. False if something was not finite.
inline bool decode_quad(const Call& call, const Task& task, const Logits& logits, const DecodeScratch& s, DecodeQuad& quad,
                        std::int64_t j0, std::int64_t j1, std::int64_t k_offset, std::int64_t v_offset, RowStream& next_k,
                        RowStream& next_v) {
  const Problem& p = call.problem;
  const Visible visible = place(call.band(task.sequence), logits, j0, &j1, quad.rows);
  if (visible == Visible::kNone) return true;
  const std::int64_t keys = j1 - j0;
  const std::int64_t count = keys * kQuad;
  with_storage_type(p.dtype, [&](auto x) {
    constexpr std::int64_t kLine = 64;
    const std::int64_t bytes = std::max(p.head_dim, p.head_dim_v) * static_cast<std::int64_t>(sizeof(x));
    decode_scores<decltype(x)>(s.now.k, k_offset, keys, quad.q, tile_stride(p.head_dim), p.head_dim, s.scores, next_k, next_v,
                               kDotKeys * (bytes + kLine - 1) / kLine);
  });
  hn::StoreU(hn::Zero(kF), kF, s.scores + count);
  const bool finite = all_finite(s.scores, count);
  const bool some = visible == Visible::kSome;
  if (logits.staged) load_stage(call, task.sequence, quad.rows, j0, keys, s.stage);
  if (some || logits.per_score()) to_logits(logits, quad.rows, some, keys, s.scores, s.stage, nullptr);
  hn::StoreU(hn::Set(kF, kMinusInfinity), kF, s.scores + count);  // the rest of the last vector
  narrow_softmax_step(keys, s.scores, quad.state);
  if (p.dropout > 0) {
    load_keep(call, task.sequence, quad.rows, j0, keys, s.keep);
    multiply(count, s.scores, s.keep, false);
  }
  with_storage_type(p.dtype, [&](auto x) {
    decode_values<decltype(x)>(s.now.v, v_offset, keys, p.head_dim_v, s.scores, quad.state.factor, quad.out,
                               tile_stride(p.head_dim_v));
  });
  return finite;
}

/// Keys of a block: a power of two from 16 to tile_n, whose rows of all the task's heads stay in cache.
inline std::int64_t block_keys(const Call& call, const Task& task) {
  const Problem& p = call.problem;
  const std::int64_t row = task.heads * (p.head_dim + p.head_dim_v) * static_cast<std::int64_t>(size_of(p.dtype));
  std::int64_t keys = 16;
  while (keys < call.plan.tile_n && 2 * keys * row <= kBlockBytes) keys *= 2;
  return std::min(keys, call.plan.tile_n);
}

inline void decode(const Call& call, const Task& task, Arena arena) {
  const Problem& p = call.problem;
  const Logits logits(p);
  const std::int64_t rows = task.row_end - task.row_begin;
  const std::int64_t quads = (rows + kQuad - 1) / kQuad;  // of one head
  const std::int64_t out_stride = tile_stride(p.head_dim_v);
  Arena own = arena;
  DecodeScratch s;
  s.layout(own, p, call.plan);

  Task head = task;  // one of the task's heads
  head.heads = 1;
  const auto for_each_quad = [&](auto&& f) {
    for (std::int64_t i = 0; i < task.heads * quads; ++i) {
      head.head_kv = task.head_kv + i / quads;
      f(i % quads * kQuad, s.quads[i]);
    }
  };
  for_each_quad([&](std::int64_t first, DecodeQuad& quad) {
    assign_rows(call, head, first, quad.rows);
    load_query_rows(call, head, call.tensors.q, quad.rows, p.head_dim, quad.q, tile_stride(p.head_dim));
    for (std::int64_t x = 0; x < kQuad * tile_stride(p.head_dim); ++x) quad.q[x] *= logits.query_scale;
    for (std::int64_t x = 0; x < kQuad * out_stride; ++x) quad.out[x] = 0.0f;
    quad.state.reset(kLanes);
  });

  const Rows k_rows = call.keys(call.tensors.k, task.sequence, task.head_kv);
  const Rows v_rows = call.keys(call.tensors.v, task.sequence, task.head_kv);
  const auto element = static_cast<std::int64_t>(size_of(p.dtype));
  const std::int64_t k_head = call.tensors.k.strides[call.tensors.k.rank - 2] * element;
  const std::int64_t v_head = call.tensors.v.strides[call.tensors.v.rank - 2] * element;
  const KeyRange range = task_keys(call, task);
  const std::int64_t block = block_keys(call, task);
  const auto find_rows = [&](std::int64_t begin, BlockRows& to) {
    const std::int64_t end = std::min<std::int64_t>(begin + block, range.end);
    for (std::int64_t j = begin; j < end; ++j) to.k[j - begin] = k_rows.row(j), to.v[j - begin] = v_rows.row(j);
    return std::max<std::int64_t>(end - begin, 0);
  };
  bool finite = true;
  std::int64_t keys = find_rows(range.begin, s.now);
  for (std::int64_t j0 = range.begin; finite && keys > 0; j0 += block) {
    const std::int64_t next_keys = find_rows(j0 + block, s.next);
    RowStream next_k(s.next.k, next_keys, task.heads * p.head_dim * element);
    RowStream next_v(s.next.v, next_keys, task.heads * p.head_dim_v * element);
    for_each_quad([&](std::int64_t, DecodeQuad& quad) {
      const std::int64_t h = head.head_kv - task.head_kv;
      finite = decode_quad(call, head, logits, s, quad, j0, j0 + keys, h * k_head, h * v_head, next_k, next_v) && finite;
    });
    std::swap(s.now, s.next);
    keys = next_keys;
  }
  for_each_quad([&](std::int64_t, DecodeQuad& quad) {
    finite = finite && all_finite(quad.out, kQuad * out_stride) && all_finite(quad.state.sum, kLanes);
  });
  if (!finite) return forward_heads(call, task, arena);
  for_each_quad([&](std::int64_t first, DecodeQuad& quad) {
    for (std::int64_t r = 0; r < quad.rows.rows; ++r) {
      float sum = 0.0f;
      for (std::int64_t l = r; l < kLanes; l += kQuad) sum += quad.state.sum[l];
      emit_row(call, head, task.row_begin + first + r, quad.out + r * out_stride, quad.state.max[r], sum, false);
    }
  });
}

#endif

}  // namespace splitq::cpu::SPLITQ_ISA
HWY_AFTER_NAMESPACE();
