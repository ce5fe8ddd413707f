// Forward: FlashAttention-2's loop (Dao 2023, algorithm 1) for one tile of query rows.
//
//   for each key tile:                                   panel of kPanelWidth rows, lanes along queries
//     S' = K Q'                  [tile_n][width]          gemm
//     logits, softmax step       P' = exp2(S' - m)        lane by lane
//     O' = O' * factor + V' P'   [Dv][width]              gemm, the factor applied as O' is loaded
//
// O stays unnormalised until the end; m and the row sum are lanes; K and V are loaded once for all panels and all heads of the
// group.
#pragma once

#include <cstring>

#include "cpu/simd/finish-inl.hpp"
#include "cpu/simd/gemm-inl.hpp"
#include "cpu/simd/softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace splitq::cpu::SPLITQ_ISA {

inline std::int64_t panels_of(std::int64_t rows) { return (rows + kPanelWidth - 1) / kPanelWidth; }

struct ForwardPanel {
  PanelRows rows;
  RowState state;
  float* q = nullptr;    // [D][width], scaled
  float* out = nullptr;  // [Dv padded][width]
  std::uint32_t largest_q = 0;
  std::int64_t vecs = 0;  // used vectors of the width
};

struct ForwardScratch {
  ForwardPanel* panels = nullptr;
  float* k = nullptr;       // [tile_n][stride]
  float* v = nullptr;       // [tile_n][stride]
  float* scores = nullptr;  // [tile_n][width]
  float* stage = nullptr;   // [tile_n][width], bias or mask
  float* keep = nullptr;    // [tile_n][width], dropout
  float* rows = nullptr;    // [width][stride], a panel's rows on their way in or out
  float* sum_before = nullptr;

  void layout(Arena& arena, const Problem& p, const CpuPlan& plan) {
    const Logits logits(p);
    panels = arena.make<ForwardPanel>(panels_of(plan.tile_m), [&](ForwardPanel& panel) {
      panel.rows.layout(arena, kPanelWidth);
      panel.state.layout(arena, kPanelWidth);
      panel.q = arena.take<float>(p.head_dim * kPanelWidth);
      panel.out = arena.take<float>(round_up(p.head_dim_v, kRowAlign) * kPanelWidth);
    });
    k = arena.take<float>(plan.tile_n * tile_stride(p.head_dim));
    v = arena.take<float>(plan.tile_n * tile_stride(p.head_dim_v));
    scores = arena.take<float>(plan.tile_n * kPanelWidth);
    if (logits.staged) stage = arena.take<float>(plan.tile_n * kPanelWidth);
    if (p.dropout > 0) keep = arena.take<float>(plan.tile_n * kPanelWidth);
    rows = arena.take<float>(kPanelWidth * tile_stride(p.head_dim > p.head_dim_v ? p.head_dim : p.head_dim_v));
    sum_before = arena.take<float>(kPanelWidth);
  }
};

/// Loads the panel's queries, one head of the group after the other where there are several.
inline std::uint32_t load_query_rows(const Call& call, const Task& task, const TensorView& view, const PanelRows& panel,
                                     std::int64_t dim, float* dst, std::int64_t stride) {
  std::uint32_t largest = 0;
  for (std::int64_t l = 0; l < panel.rows; ++l) {
    const Rows rows = rows_of(view, task.sequence, call.sequences[task.sequence].q_begin, panel.head[l]);
    const std::uint32_t x = load_rows(rows, panel.query[l], 1, 1, dim, dst + l * stride, stride);
    largest = x > largest ? x : largest;
  }
  for (std::int64_t i = panel.rows * stride; i < panel.width * stride; ++i) dst[i] = 0.0f;
  return largest;
}

/// O' of a panel, back to rows.
inline void emit_panel(const Call& call, const Task& task, std::int64_t first, const ForwardPanel& panel, float* rows,
                       bool normalised) {
  const std::int64_t dim = call.problem.head_dim_v;
  const std::int64_t stride = tile_stride(dim);
  transpose(panel.out, kPanelWidth, dim, panel.rows.rows, 1.0f, rows, stride);
  for (std::int64_t l = 0; l < panel.rows.rows; ++l) {
    emit_row(call, task, task.row_begin + first + l, rows + l * stride, panel.state.max[l], panel.state.sum[l],
             normalised);
  }
}

inline void forward(const Call& call, const Task& task, Arena arena) {
  const Problem& p = call.problem;
  const Logits logits(p);
  const bool every_step = call.plan.schedule.rescale == Schedule::Rescale::kEveryStep;
  const std::int64_t k_stride = tile_stride(p.head_dim);
  const std::int64_t v_stride = tile_stride(p.head_dim_v);
  const std::int64_t out_rows = round_up(p.head_dim_v, kRowAlign);
  const std::int64_t count = panels_of(task.row_end - task.row_begin);
  ForwardScratch s;
  s.layout(arena, p, call.plan);

  for (std::int64_t i = 0; i < count; ++i) {
    ForwardPanel& panel = s.panels[i];
    assign_rows(call, task, i * kPanelWidth, panel.rows);
    panel.vecs = (panel.rows.rows + kLanes - 1) / kLanes;
    panel.largest_q = load_query_rows(call, task, call.tensors.q, panel.rows, p.head_dim, s.rows, k_stride);
    transpose(s.rows, k_stride, kPanelWidth, p.head_dim, logits.fold, panel.q, kPanelWidth);
    panel.state.reset(kPanelWidth);
    for (std::int64_t x = 0; x < out_rows * kPanelWidth; ++x) panel.out[x] = 0.0f;
  }

  const Rows k_rows = call.keys(call.tensors.k, task.sequence, task.head_kv);
  const Band band = call.band(task.sequence);
  const KeyRange range = task_keys(call, task);
  for (std::int64_t j0 = range.begin; j0 < range.end; j0 += call.plan.tile_n) {
    const std::int64_t tile_end = j0 + call.plan.tile_n < range.end ? j0 + call.plan.tile_n : range.end;
    const std::int64_t tile_keys = tile_end - j0;
    const KeyTile tile = key_tile(call, task, j0, tile_keys, s.k, s.v);

    for (std::int64_t i = 0; i < count; ++i) {
      ForwardPanel& panel = s.panels[i];
      std::int64_t j1 = tile_end;
      const Visible visible = place(band, logits, j0, &j1, panel.rows);
      if (visible == Visible::kNone) continue;
      const std::int64_t keys = j1 - j0;
      const Matrix scores{s.scores, kPanelWidth};

      if (may_overflow(p, logits, panel.largest_q, tile.largest_k)) {
        exact_scores(call, task.sequence, logits, panel.rows, k_rows, j0, keys, s.scores);
      } else {
        gemm<Init::kZero>(round_up(keys, kRowAlign), panel.vecs, p.head_dim, {tile.k, k_stride, 1},
                          {panel.q, kPanelWidth}, scores);
      }
      const bool some = visible == Visible::kSome;
      if (logits.staged) load_stage(call, task.sequence, panel.rows, j0, keys, s.stage);
      if (some || logits.per_score()) to_logits(logits, panel.rows, some, keys, s.scores, s.stage, nullptr);

      // A value that is not finite must not reach rows that do not see it: then p = 0 says "hidden".
      const bool absorb = tile.largest_v >= kNotFinite && (some || logits.staged);
      if (every_step) std::memcpy(s.sum_before, panel.state.sum, kPanelWidth * sizeof(float));
      softmax_step(panel.vecs, keys, s.scores, kPanelWidth, panel.state, logits.unit, absorb);
      if (every_step) normalise_step(panel.vecs, keys, s.scores, kPanelWidth, panel.state, s.sum_before);
      if (p.dropout > 0) {
        load_keep(call, task.sequence, panel.rows, j0, keys, s.keep);
        multiply(keys * kPanelWidth, s.scores, s.keep, absorb);
      }
      gemm<Init::kScale>(out_rows, panel.vecs, keys, {tile.v, 1, v_stride}, scores, {panel.out, kPanelWidth},
                         panel.state.factor, absorb);
    }
  }
  for (std::int64_t i = 0; i < count; ++i) emit_panel(call, task, i * kPanelWidth, s.panels[i], s.rows, every_step);
}

}  // namespace splitq::cpu::SPLITQ_ISA
HWY_AFTER_NAMESPACE();
