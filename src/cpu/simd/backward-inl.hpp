// Backward (FlashAttention-2, algorithm 2) for one tile of query rows, lanes along queries as in forward:
//
//   for each key tile, for each panel:
//     S'  = K Q'    P'  = exp2(S' - m) w          the softmax again, from the stored log-sum-exp
//     dP' = V dO'   dS' = P' (dP' - delta)        lane by lane
//     dV += P' dO,  dK += dS' Q                   lanes along the head dimension
//     dQ' += K' dS'
//
// A task owns its rows of dQ. Rows of dK and dV are summed in shared fp32 memory, tasks taking turns in the order of execution
// (Turnstile), so that no addition is atomic and the sums do not depend on timing.
#pragma once

#include <algorithm>
#include <cmath>

#include "cpu/simd/forward-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace splitq::cpu::SPLITQ_ISA {

struct BackwardPanel {
  PanelRows rows;
  RowState state;              // of the statistics' second look alone
  float* q = nullptr;          // [D][width], times Logits::fold
  float* dout = nullptr;       // [Dv][width]
  float* dq = nullptr;         // [D padded][width]
  float* q_rows = nullptr;     // [width][stride], times scale
  float* dout_rows = nullptr;  // [width][stride]
  float* max = nullptr;        // [width] p = exp2((x - max) unit) * weight
  float* weight = nullptr;     // [width]
  float* delta = nullptr;      // [width] rowsum(dO ∘ O) - dlse
  std::uint32_t largest_q = 0;
  bool finite = true;  // dO and the statistics of every row
  std::int64_t vecs = 0;
};

struct BackwardScratch {
  BackwardPanel* panels = nullptr;
  float* k = nullptr;       // [tile_n][stride]
  float* v = nullptr;       // [tile_n][stride]
  float* dk = nullptr;      // [tile_n][stride]
  float* dv = nullptr;      // [tile_n][stride]
  float* p = nullptr;       // [tile_n][width]
  float* ds = nullptr;      // [tile_n][width]
  float* stage = nullptr;   // [tile_n][width]
  float* keep = nullptr;    // [tile_n][width]
  float* slopes = nullptr;  // [tile_n][width]
  float* rows = nullptr;    // [width][stride]

  void layout(Arena& arena, const Problem& problem, const CpuPlan& plan) {
    const std::int64_t d_stride = tile_stride(problem.head_dim);
    const std::int64_t v_stride = tile_stride(problem.head_dim_v);
    panels = arena.make<BackwardPanel>(panels_of(plan.tile_m), [&](BackwardPanel& panel) {
      panel.rows.layout(arena, kPanelWidth);
      panel.state.layout(arena, kPanelWidth);
      panel.q = arena.take<float>(problem.head_dim * kPanelWidth);
      panel.dout = arena.take<float>(problem.head_dim_v * kPanelWidth);
      panel.dq = arena.take<float>(round_up(problem.head_dim, kRowAlign) * kPanelWidth);
      panel.q_rows = arena.take<float>(kPanelWidth * d_stride);
      panel.dout_rows = arena.take<float>(kPanelWidth * v_stride);
      panel.max = arena.take<float>(kPanelWidth);
      panel.weight = arena.take<float>(kPanelWidth);
      panel.delta = arena.take<float>(kPanelWidth);
    });
    const std::int64_t scores = plan.tile_n * kPanelWidth;
    k = arena.take<float>(plan.tile_n * d_stride);
    v = arena.take<float>(plan.tile_n * v_stride);
    dk = arena.take<float>(plan.tile_n * d_stride);
    dv = arena.take<float>(plan.tile_n * v_stride);
    p = arena.take<float>(scores);
    ds = arena.take<float>(scores);
    if (Logits(problem).staged) stage = arena.take<float>(scores);
    if (problem.dropout > 0) keep = arena.take<float>(scores);
    if (problem.softcap > 0) slopes = arena.take<float>(scores);
    rows = arena.take<float>(kPanelWidth * (d_stride > v_stride ? d_stride : v_stride));
  }
};

/// A task on its way: what all steps below share.
struct BackwardTask {
  const Call& call;
  const Task& task;
  const Problem& problem;
  const Logits logits;
  const Band band;
  const Rows k_rows;
  const std::int64_t d_stride;
  const std::int64_t v_stride;
  BackwardScratch s{};

  BackwardTask(const Call& c, const Task& t)
      : call(c),
        task(t),
        problem(c.problem),
        logits(c.problem),
        band(c.band(t.sequence)),
        k_rows(c.keys(c.tensors.k, t.sequence, t.head_kv)),
        d_stride(tile_stride(c.problem.head_dim)),
        v_stride(tile_stride(c.problem.head_dim_v)) {}
};

/// Logits of a panel before keys [j0, j0 + keys) of a tile.
inline void recompute_logits(const BackwardTask& t, const BackwardPanel& panel, Visible visible, std::int64_t j0,
                             std::int64_t keys, const KeyTile& tile, float* out) {
  if (may_overflow(t.problem, t.logits, panel.largest_q, tile.largest_k)) {
    exact_scores(t.call, t.task.sequence, t.logits, panel.rows, t.k_rows, j0, keys, out);
  } else {
    gemm<Init::kZero>(round_up(keys, kRowAlign), panel.vecs, t.problem.head_dim, {tile.k, t.d_stride, 1},
                      {panel.q, kPanelWidth}, {out, kPanelWidth});
  }
  const bool some = visible == Visible::kSome;
  if (t.logits.staged) load_stage(t.call, t.task.sequence, panel.rows, j0, keys, t.s.stage);
  if (some || t.logits.per_score()) to_logits(t.logits, panel.rows, some, keys, out, t.s.stage, t.s.slopes);
}

/// Loads a panel's rows and their statistics.
inline void open_panel(const BackwardTask& t, std::int64_t first, BackwardPanel& panel) {
  const Tensors& tensors = t.call.tensors;
  assign_rows(t.call, t.task, first, panel.rows);
  panel.vecs = (panel.rows.rows + kLanes - 1) / kLanes;
  panel.largest_q =
      load_query_rows(t.call, t.task, tensors.q, panel.rows, t.problem.head_dim, panel.q_rows, t.d_stride);
  transpose(panel.q_rows, t.d_stride, kPanelWidth, t.problem.head_dim, t.logits.fold, panel.q, kPanelWidth);
  const auto scale = static_cast<float>(t.problem.scale);
  for (std::int64_t x = 0; x < kPanelWidth * t.d_stride; ++x) panel.q_rows[x] *= scale;
  panel.finite = load_query_rows(t.call, t.task, tensors.dout, panel.rows, t.problem.head_dim_v, panel.dout_rows,
                                 t.v_stride) < kNotFinite;
  transpose(panel.dout_rows, t.v_stride, kPanelWidth, t.problem.head_dim_v, 1.0f, panel.dout, kPanelWidth);
  for (std::int64_t x = 0; x < round_up(t.problem.head_dim, kRowAlign) * kPanelWidth; ++x) panel.dq[x] = 0.0f;

  load_query_rows(t.call, t.task, tensors.out, panel.rows, t.problem.head_dim_v, t.s.rows, t.v_stride);
  for (std::int64_t l = 0; l < kPanelWidth; ++l) {
    panel.max[l] = __builtin_inff();  // p = 0: an unused lane, or a row that sees no key
    panel.weight[l] = 0.0f;
    panel.delta[l] = 0.0f;
    if (l >= panel.rows.rows) continue;
    // Summed as the product V dO' sums: where one key has all the weight, dP - delta is exactly 0.
    Vec sum = hn::Zero(kF);
    for (std::int64_t d = 0; d < t.problem.head_dim_v; ++d) {
      const Vec o = hn::Set(kF, t.s.rows[l * t.v_stride + d]);
      sum = hn::MulAdd(o, hn::Set(kF, panel.dout_rows[l * t.v_stride + d]), sum);
    }
    double delta = static_cast<double>(hn::GetLane(sum));
    const auto row = [&](const TensorView& view) {
      return *t.call.lse(view, t.task.sequence, panel.rows.head[l], panel.rows.query[l]);
    };
    if (tensors.dlse.given()) delta -= static_cast<double>(row(tensors.dlse));
    panel.delta[l] = static_cast<float>(delta);
    panel.finite = panel.finite && std::isfinite(panel.delta[l]);
    const double lse = static_cast<double>(row(tensors.softmax_lse)) * kLog2e;
    if (lse == -HUGE_VAL) continue;
    panel.max[l] = static_cast<float>(lse / t.logits.exact_unit);
    panel.finite = panel.finite && std::isfinite(panel.max[l]);
    panel.weight[l] = static_cast<float>(std::exp2(t.logits.reference(panel.max[l]) - lse));  // what the rounding took
  }
}

/// A log-sum-exp far from 0 has lost digits that exp(x - lse) needs. Where the rows' own maximum and sum, computed again, agree
/// with it to its precision, they replace it; where they do not, it stands for more keys than these, and is kept.
inline void refine_statistics(BackwardTask& t, std::int64_t count) {
  constexpr double kPrecise = 64.0 * kLog2e;  // half a unit in the last place: 4e-6
  constexpr double kAgree = 1e-6;
  bool far = false;
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t l = 0; l < t.s.panels[i].rows.rows; ++l) {
      const double lse = std::fabs(t.logits.reference(t.s.panels[i].max[l]));
      far = far || (lse > kPrecise && lse < HUGE_VAL);
    }
  }
  if (!far) return;
  for (std::int64_t i = 0; i < count; ++i) t.s.panels[i].state.reset(kPanelWidth);
  const KeyRange range = task_keys(t.call, t.task);
  for (std::int64_t j0 = range.begin; j0 < range.end; j0 += t.call.plan.tile_n) {
    const std::int64_t end = j0 + t.call.plan.tile_n < range.end ? j0 + t.call.plan.tile_n : range.end;
    const KeyTile tile = key_tile(t.call, t.task, j0, end - j0, t.s.k, t.s.v);
    for (std::int64_t i = 0; i < count; ++i) {
      BackwardPanel& panel = t.s.panels[i];
      std::int64_t j1 = end;
      const Visible visible = place(t.band, t.logits, j0, &j1, panel.rows);
      if (visible == Visible::kNone) continue;
      recompute_logits(t, panel, visible, j0, j1 - j0, tile, t.s.p);
      softmax_step(panel.vecs, j1 - j0, t.s.p, kPanelWidth, panel.state, t.logits.unit, false);
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    BackwardPanel& panel = t.s.panels[i];
    for (std::int64_t l = 0; l < panel.rows.rows; ++l) {
      if (panel.state.sum[l] == 0.0f) continue;
      const double reference = t.logits.reference(panel.state.max[l]);
      double sum = static_cast<double>(panel.state.sum[l]);
      const TensorView& sink = t.call.tensors.sink;
      if (sink.given()) {
        const float x = static_cast<const float*>(sink.data)[panel.rows.head[l] * sink.strides[0]];
        sum += std::exp2(static_cast<double>(x) * kLog2e - reference);
      }
      const double lse = reference + std::log2(sum);
      if (!(std::fabs(lse - t.logits.reference(panel.max[l])) <= kAgree * std::fabs(lse))) continue;
      panel.max[l] = panel.state.max[l];
      panel.weight[l] = static_cast<float>(1.0 / sum);
    }
  }
}

/// p = exp2((x - max) unit) * weight in place; `floor` as in softmax_columns.
inline void probabilities(const BackwardPanel& panel, std::int64_t keys, float unit, float* HWY_RESTRICT x,
                          bool floor) {
  const Vec units = hn::Set(kF, unit);
  const Vec tiny = hn::Set(kF, __FLT_MIN__);
  for (std::int64_t n = 0; n < panel.vecs * kLanes; n += kLanes) {
    const Vec max = hn::LoadU(kF, panel.max + n);
    const Vec weight = hn::LoadU(kF, panel.weight + n);
    const auto none = hn::Eq(max, hn::Set(kF, __builtin_inff()));
    for (std::int64_t k = 0; k < keys; ++k) {
      float* at = x + k * kPanelWidth + n;
      const Vec logit = hn::LoadU(kF, at);
      Vec p = hn::Mul(exp2_nonpositive(hn::Mul(hn::Sub(logit, max), units)), weight);
      if (floor) {
        const auto hidden = hn::Or(none, hn::Eq(logit, hn::Set(kF, kMinusInfinity)));
        p = hn::IfThenZeroElse(hidden, hn::Max(tiny, p));
      }
      hn::StoreU(p, kF, at);
    }
  }
}

/// dx = p (dp - delta) in place of dp; 0 where p is 0, whatever dp is.
inline void score_gradients(const BackwardPanel& panel, std::int64_t keys, const float* HWY_RESTRICT p,
                            float* HWY_RESTRICT dp, const float* HWY_RESTRICT keep) {
  for (std::int64_t n = 0; n < panel.vecs * kLanes; n += kLanes) {
    const Vec delta = hn::LoadU(kF, panel.delta + n);
    for (std::int64_t k = 0; k < keys; ++k) {
      const std::int64_t at = k * kPanelWidth + n;
      Vec y = hn::LoadU(kF, dp + at);
      if (keep != nullptr) y = hn::Mul(y, hn::LoadU(kF, keep + at));
      const Vec x = hn::LoadU(kF, p + at);
      hn::StoreU(hn::IfThenZeroElse(hn::Eq(x, hn::Zero(kF)), hn::Mul(x, hn::Sub(y, delta))), kF, dp + at);
    }
  }
}

/// Adds dx to dbias, over the dimensions that the bias broadcasts.
inline void add_bias_gradient(const BackwardTask& t, const PanelRows& panel, std::int64_t j0, std::int64_t keys,
                              const float* dx) {
  const TensorView& sum = t.call.dbias_sum;
  const auto at = [&](int d, std::int64_t x) { return sum.shape[d] == 1 ? 0 : x * sum.strides[d]; };
  for (std::int64_t l = 0; l < panel.rows; ++l) {
    float* to = static_cast<float*>(sum.data) + at(0, t.task.sequence) + at(1, panel.head[l]) + at(2, panel.query[l]);
    for (std::int64_t k = 0; k < keys; ++k) to[at(3, j0 + k)] += dx[k * panel.width + l];
  }
}

/// Adds rows of a tile to a sum.
inline void add_rows(std::int64_t keys, const float* HWY_RESTRICT tile, std::int64_t stride, std::int64_t dim,
                     float* HWY_RESTRICT sum) {
  for (std::int64_t k = 0; k < keys; ++k) {
    for (std::int64_t d = 0; d < dim; ++d) sum[k * dim + d] += tile[k * stride + d];
  }
}

/// One panel before one key tile: its shares of dQ, and of the tile's dK and dV. `first`: nothing has been added to those.
inline void backward_step(const BackwardTask& t, BackwardPanel& panel, Visible visible, std::int64_t j0,
                          std::int64_t keys, const KeyTile& tile, bool first) {
  const Problem& p = t.problem;
  const BackwardScratch& s = t.s;
  const bool absorb = std::max({panel.largest_q, tile.largest_k, tile.largest_v}) >= kNotFinite || !panel.finite;
  const std::int64_t key_rows = round_up(keys, kRowAlign);
  recompute_logits(t, panel, visible, j0, keys, tile, s.p);
  probabilities(panel, keys, t.logits.unit, s.p, absorb);
  gemm<Init::kZero>(key_rows, panel.vecs, p.head_dim_v, {tile.v, t.v_stride, 1}, {panel.dout, kPanelWidth},
                    {s.ds, kPanelWidth});
  if (p.dropout > 0) load_keep(t.call, t.task.sequence, panel.rows, j0, keys, s.keep);
  score_gradients(panel, keys, s.p, s.ds, s.keep);
  if (t.call.dbias_sum.given()) add_bias_gradient(t, panel.rows, j0, keys, s.ds);
  if (p.softcap > 0) multiply(keys * kPanelWidth, s.ds, s.slopes, false);
  if (p.dropout > 0) multiply(keys * kPanelWidth, s.p, s.keep, absorb);

  // The rows that fill up the last register tile of keys: no key, no share.
  std::fill_n(s.p + keys * kPanelWidth, (key_rows - keys) * kPanelWidth, 0.0f);
  std::fill_n(s.ds + keys * kPanelWidth, (key_rows - keys) * kPanelWidth, 0.0f);
  const auto vectors = [](std::int64_t dim) { return (dim + kLanes - 1) / kLanes; };
  const auto add = first ? gemm<Init::kZero> : gemm<Init::kAdd>;
  add(key_rows, vectors(p.head_dim_v), panel.rows.rows, {s.p, kPanelWidth, 1}, {panel.dout_rows, t.v_stride},
      {s.dv, t.v_stride}, nullptr, absorb);
  add(key_rows, vectors(p.head_dim), panel.rows.rows, {s.ds, kPanelWidth, 1}, {panel.q_rows, t.d_stride},
      {s.dk, t.d_stride}, nullptr, absorb);
  gemm<Init::kAdd>(round_up(p.head_dim, kRowAlign), panel.vecs, keys, {tile.k, 1, t.d_stride}, {s.ds, kPanelWidth},
                   {panel.dq, kPanelWidth}, nullptr, absorb);
}

/// Writes dQ of a panel, and its share of dsink.
inline void close_panel(const BackwardTask& t, const BackwardPanel& panel) {
  const std::int64_t dim = t.problem.head_dim;
  transpose(panel.dq, kPanelWidth, dim, panel.rows.rows, static_cast<float>(t.problem.scale), t.s.rows, t.d_stride);
  for (std::int64_t l = 0; l < panel.rows.rows; ++l) {
    const std::int64_t head = panel.rows.head[l];
    const Rows dq = rows_of(t.call.tensors.dq, t.task.sequence, t.call.sequences[t.task.sequence].q_begin, head);
    store_row(dq, panel.rows.query[l], t.s.rows + l * t.d_stride, dim, 1.0f);
    if (t.call.dsink_partial == nullptr) continue;
    const TensorView& sink = t.call.tensors.sink;
    const double x = static_cast<double>(static_cast<const float*>(sink.data)[head * sink.strides[0]]);
    const double lse =
        static_cast<double>(*t.call.lse(t.call.tensors.softmax_lse, t.task.sequence, head, panel.rows.query[l]));
    const double p = x == -HUGE_VAL ? 0.0 : std::exp(x - lse);
    t.call.dsink_partial[t.task.index * t.problem.group() + head % t.problem.group()] -=
        p == 0.0 ? 0.0 : p * static_cast<double>(panel.delta[l]);
  }
}

inline void backward(const Call& call, const Task& task, Arena arena, Turnstile& turnstile) {
  BackwardTask t(call, task);
  t.s.layout(arena, call.problem, call.plan);
  const std::int64_t tile_n = call.plan.tile_n;
  const KeySum& sum = call.key_sum(task.sequence, task.head_kv);
  const std::int64_t count = panels_of(task.row_end - task.row_begin);
  for (std::int64_t i = 0; i < count; ++i) open_panel(t, i * kPanelWidth, t.s.panels[i]);
  refine_statistics(t, count);

  const bool ordered_bias = call.dbias_sum.given();
  const KeyRange range = task_keys(call, task);
  for (std::int64_t j0 = range.begin; j0 < range.end; j0 += tile_n) {
    const std::int64_t end = j0 + tile_n < range.end ? j0 + tile_n : range.end;
    const std::int64_t keys = end - j0;
    const KeyTile tile = key_tile(call, task, j0, keys, t.s.k, t.s.v);
    if (ordered_bias) turnstile.wait(task, j0 / tile_n);
    std::int64_t added = 0;  // keys of the tile that a panel has seen: the rest of dK and dV is not written yet
    for (std::int64_t i = 0; i < count; ++i) {
      BackwardPanel& panel = t.s.panels[i];
      std::int64_t j1 = end;
      const Visible visible = place(t.band, t.logits, j0, &j1, panel.rows);
      if (visible == Visible::kNone) continue;
      const std::int64_t rows = round_up(j1 - j0, kRowAlign);
      if (added > 0 && rows > added) {  // later panels see more keys
        std::fill_n(t.s.dk + added * t.d_stride, (rows - added) * t.d_stride, 0.0f);
        std::fill_n(t.s.dv + added * t.v_stride, (rows - added) * t.v_stride, 0.0f);
      }
      backward_step(t, panel, visible, j0, j1 - j0, tile, added == 0);
      added = rows > added ? rows : added;
    }
    if (!ordered_bias) turnstile.wait(task, j0 / tile_n);
    const std::int64_t touched = added < keys ? added : keys;
    const std::int64_t dim = call.problem.head_dim, dim_v = call.problem.head_dim_v;
    add_rows(touched, t.s.dk, t.d_stride, dim, sum.dk + j0 * dim);
    add_rows(touched, t.s.dv, t.v_stride, dim_v, sum.dv + j0 * dim_v);
    turnstile.pass(task, j0 / tile_n);
  }
  for (std::int64_t i = 0; i < count; ++i) close_panel(t, t.s.panels[i]);
}

}  // namespace splitq::cpu::SPLITQ_ISA
HWY_AFTER_NAMESPACE();
