// Forward for few query rows before many keys: a cache is read once, at the speed of memory.
//
// Lanes run along the head dimension, so that keys and values are read where they lie and in the order in which they lie: some
// keys of all heads of the task, then the next keys. Rows of one key/value head are taken four at a time: scores [keys][4] are a narrow panel (scores-inl.hpp). Anything that is not finite
// on the way sends the task to the tile kernel, which knows what to do with it.
#pragma once

#include <algorithm>

#include "cpu/simd/decode_rows-inl.hpp"
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

inline constexpr std::int64_t kAhead = 16;      // keys from a request for memory to its use
inline constexpr std::int64_t kValueKeys = 16;  // keys at a time in summing values: 16 rows of all heads stay in cache
static_assert(kValueKeys <= kAhead, "rows are known so far ahead");

struct DecodeQuad {
  PanelRows rows;
  RowState state;           // [kLanes]: four rows, repeated
  void* q = nullptr;        // [4][stride], times Logits::fold, as queries of the type
  float* out = nullptr;     // [4][stride], in load_pair's order
  float* scores = nullptr;  // [tile_n][4], one vector more
  std::int64_t head = 0;    // key/value head, counted from the task's first
  std::int64_t keys = 0;    // of the block that any of the rows sees
};

template <class Storage>
Query<Storage>* queries(const DecodeQuad& quad) {
  return static_cast<Query<Storage>*>(quad.q);
}

struct DecodeScratch {
  DecodeQuad* quads = nullptr;  // [heads][quads of a head]
  float* rows = nullptr;        // [4][stride], a quad's rows on their way in or out
  float* stage = nullptr;       // [tile_n][4], one vector more
  float* keep = nullptr;
  const std::byte** k = nullptr;  // [tile_n] the block's rows, at the task's first head
  const std::byte** v = nullptr;

  void layout(Arena& arena, const Problem& p, const CpuPlan& plan) {
    const std::int64_t count = plan.decode_heads * ((plan.decode_rows + kQuad - 1) / kQuad);
    const std::int64_t panel = plan.tile_n * kQuad + kLanes;
    quads = arena.make<DecodeQuad>(count, [&](DecodeQuad& quad) {
      quad.rows.layout(arena, kQuad);
      quad.state.layout(arena, kLanes);
      quad.q = arena.take<float>(kQuad * tile_stride(p.head_dim));
      quad.out = arena.take<float>(kQuad * tile_stride(p.head_dim_v));
      quad.scores = arena.take<float>(panel);
    });
    rows = arena.take<float>(kQuad * std::max(tile_stride(p.head_dim), tile_stride(p.head_dim_v)));
    stage = arena.take<float>(panel);
    keep = arena.take<float>(panel);
    const std::int64_t row_count = round_up(plan.tile_n, kAhead) + kAhead;
    k = arena.take<const std::byte*>(row_count);
    v = arena.take<const std::byte*>(row_count);
  }
};

/// Are `count` values (and the rest of the last vector) finite?
inline bool all_finite(const float* x, std::int64_t count) {
  Vec sum = hn::Zero(kF);
  for (std::int64_t f = 0; f < count; f += kLanes) sum = hn::MulAdd(hn::LoadU(kF, x + f), hn::Zero(kF), sum);
  return hn::AllTrue(kF, hn::Eq(sum, hn::Zero(kF)));
}

/// The softmax step of a narrow panel: rows repeat in a vector, the maximum is combined over the repetitions, the sum not yet.
inline void narrow_softmax_step(std::int64_t keys, float* HWY_RESTRICT x, const RowState& state, float unit) {
  const Vec units = hn::Set(kF, unit);
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
  const Vec factor = exp2_nonpositive(hn::Mul(hn::Sub(old, reference), units));
  hn::StoreU(factor, kF, state.factor);
  Vec sum = hn::Mul(hn::LoadU(kF, state.sum), factor);
  for (std::int64_t f = 0; f < count; f += kLanes) {
    const Vec p = exp2_nonpositive(hn::Mul(hn::Sub(hn::LoadU(kF, x + f), reference), units));
    sum = hn::Add(sum, p);
    hn::StoreU(p, kF, x + f);
  }
  hn::StoreU(sum, kF, state.sum);
}

/// Asks for a piece of each of `count` rows that are needed soon: into the second-level cache, since rows a power of two apart
/// share few sets of the first.
HWY_INLINE void prefetch(const std::byte* const* rows, std::int64_t count, std::int64_t offset, std::int64_t bytes) {
  constexpr std::int64_t kLine = 64;
  constexpr int kToRead = 0, kSecondLevel = 2;
  for (std::int64_t r = 0; r < count; ++r) {
    for (std::int64_t at = 0; at < bytes; at += kLine) {
      __builtin_prefetch(rows[r] + offset + at, kToRead, kSecondLevel);
    }
  }
}

/// Scores of a block: some keys before all quads, then the next keys. Asks for keys kAhead rows on (k has so many more).
template <class Storage>
void block_scores(const Problem& p, const DecodeScratch& s, std::int64_t quads, std::int64_t keys,
                  std::int64_t head_bytes) {
  const std::int64_t stride = tile_stride(p.head_dim);
  std::int64_t j = 0;
  for (; j + kDotKeys <= keys; j += kDotKeys) {
    for (std::int64_t i = 0; i < quads; ++i) {
      const DecodeQuad& quad = s.quads[i];
      dot_keys<kDotKeys, Storage>(s.k + j, quad.head * head_bytes, queries<Storage>(quad), stride, p.head_dim,
                                  quad.scores + j * kQuad);
      prefetch(s.k + j + kAhead, kDotKeys, quad.head * head_bytes,
               p.head_dim * static_cast<std::int64_t>(sizeof(Storage)));
    }
  }
  for (; j < keys; ++j) {
    for (std::int64_t i = 0; i < quads; ++i) {
      const DecodeQuad& quad = s.quads[i];
      dot_keys<1, Storage>(s.k + j, quad.head * head_bytes, queries<Storage>(quad), stride, p.head_dim,
                           quad.scores + j * kQuad);
    }
  }
}

/// Logits and softmax of one quad. False if a score was not finite.
inline bool block_softmax(const Call& call, const Task& task, const Logits& logits, const DecodeScratch& s,
                          DecodeQuad& quad, std::int64_t j0, std::int64_t j1) {
  const Visible visible = place(call.band(task.sequence), logits, j0, &j1, quad.rows);
  quad.keys = visible == Visible::kNone ? 0 : j1 - j0;
  if (quad.keys == 0) return true;
  const std::int64_t count = quad.keys * kQuad;
  hn::StoreU(hn::Zero(kF), kF, quad.scores + count);
  const bool finite = all_finite(quad.scores, count);
  const bool some = visible == Visible::kSome;
  if (logits.staged) load_stage(call, task.sequence, quad.rows, j0, quad.keys, s.stage);
  if (some || logits.per_score()) to_logits(logits, quad.rows, some, quad.keys, quad.scores, s.stage, nullptr);
  hn::StoreU(hn::Set(kF, kMinusInfinity), kF, quad.scores + count);  // the rest of the last vector
  narrow_softmax_step(quad.keys, quad.scores, quad.state, logits.unit);
  if (call.problem.dropout > 0) {
    load_keep(call, task.sequence, quad.rows, j0, quad.keys, s.keep);
    multiply(count, quad.scores, s.keep, false);
  }
  return finite;
}

/// Adds a block's values to the outputs: some keys for all quads, then the next keys.
template <class Storage>
void block_values(const Problem& p, const DecodeScratch& s, std::int64_t quads, std::int64_t keys,
                  std::int64_t head_bytes) {
  constexpr float kOnes[kQuad] = {1.0f, 1.0f, 1.0f, 1.0f};
  for (std::int64_t j = 0; j < keys; j += kValueKeys) {
    for (std::int64_t i = 0; i < quads; ++i) {
      const DecodeQuad& quad = s.quads[i];
      const std::int64_t end = std::min(j + kValueKeys, quad.keys);
      if (j >= end) continue;
      prefetch(s.v + j + kValueKeys, kValueKeys, quad.head * head_bytes,
               p.head_dim_v * static_cast<std::int64_t>(sizeof(Storage)));
      add_row_values<Storage>(s.v + j, quad.head * head_bytes, end - j, p.head_dim_v, quad.scores + j * kQuad,
                              j == 0 ? quad.state.factor : kOnes, quad.out, tile_stride(p.head_dim_v));
    }
  }
}

inline void decode(const Call& call, const Task& task, Arena arena) {
  const Problem& p = call.problem;
  const Logits logits(p);
  const std::int64_t quads_of_head = (task.row_end - task.row_begin + kQuad - 1) / kQuad;
  const std::int64_t quads = task.heads * quads_of_head;
  const std::int64_t q_stride = tile_stride(p.head_dim);
  const std::int64_t out_stride = tile_stride(p.head_dim_v);
  Arena own = arena;
  DecodeScratch s;
  s.layout(own, p, call.plan);

  const auto head_task = [&](std::int64_t i) {
    Task head = task;
    head.head_kv = task.head_kv + i / quads_of_head;
    head.heads = 1;
    return head;
  };
  for (std::int64_t i = 0; i < quads; ++i) {
    DecodeQuad& quad = s.quads[i];
    quad.head = i / quads_of_head;
    assign_rows(call, head_task(i), i % quads_of_head * kQuad, quad.rows);
    load_query_rows(call, task, call.tensors.q, quad.rows, p.head_dim, s.rows, q_stride);
    for (std::int64_t r = 0; r < kQuad; ++r) {
      with_storage_type(p.dtype, [&](auto x) {
        using Storage = decltype(x);
        to_queries<Storage>(s.rows + r * q_stride, p.head_dim, logits.fold, queries<Storage>(quad) + r * q_stride);
      });
    }
    std::fill_n(quad.out, kQuad * out_stride, 0.0f);
    quad.state.reset(kLanes);
  }

  const Rows k_rows = call.keys(call.tensors.k, task.sequence, task.head_kv);
  const Rows v_rows = call.keys(call.tensors.v, task.sequence, task.head_kv);
  const auto head_bytes = [&](const TensorView& t) {
    return t.strides[t.rank - 2] * static_cast<std::int64_t>(size_of(p.dtype));
  };
  const KeyRange range = task_keys(call, task);
  bool finite = true;
  for (std::int64_t j0 = range.begin; finite && j0 < range.end; j0 += call.plan.tile_n) {
    const std::int64_t end = std::min<std::int64_t>(j0 + call.plan.tile_n, range.end);
    for (std::int64_t j = j0; j < j0 + round_up(end - j0, kAhead) + kAhead; ++j) {  // all that may be asked for
      const std::int64_t row = std::min<std::int64_t>(j, range.end - 1);
      s.k[j - j0] = k_rows.row(row), s.v[j - j0] = v_rows.row(row);
    }
    with_storage_type(p.dtype,
                      [&](auto x) { block_scores<decltype(x)>(p, s, quads, end - j0, head_bytes(call.tensors.k)); });
    for (std::int64_t i = 0; i < quads; ++i) {
      finite = block_softmax(call, head_task(i), logits, s, s.quads[i], j0, end) && finite;
    }
    with_storage_type(p.dtype,
                      [&](auto x) { block_values<decltype(x)>(p, s, quads, end - j0, head_bytes(call.tensors.v)); });
  }
  for (std::int64_t i = 0; i < quads; ++i) {
    finite = finite && all_finite(s.quads[i].out, kQuad * out_stride) && all_finite(s.quads[i].state.sum, kLanes);
  }
  if (!finite) return forward_heads(call, task, arena);

  for (std::int64_t i = 0; i < quads; ++i) {
    const DecodeQuad& quad = s.quads[i];
    for (std::int64_t r = 0; r < quad.rows.rows; ++r) {
      float sum = 0.0f;
      for (std::int64_t l = r; l < kLanes; l += kQuad) sum += quad.state.sum[l];
      from_pairs(p.dtype, quad.out + r * out_stride, p.head_dim_v, s.rows);
      emit_row(call, head_task(i), task.row_begin + i % quads_of_head * kQuad + r, s.rows, quad.state.max[r], sum,
               false);
    }
  }
}

#endif

}  // namespace splitq::cpu::SPLITQ_ISA
HWY_AFTER_NAMESPACE();
