// From q·k to logits: softcap, ALiBi, bias, masks (docs/semantics.md, steps 2 to 4), and the softmax step.
//
// A panel of scores is [keys][width]: a lane is a query row, a row of the panel is a key. The softmax's statistics are
// lanes, so that no step reduces across a vector. Narrow panels (width 4, where few rows meet a long cache) put several keys
// into one vector: lane l of the vector at flat position f is key (f + l) / width, row (f + l) % width.
#pragma once

#include <algorithm>
#include <cmath>

#include "cpu/kernels.hpp"
#include "cpu/simd/load-inl.hpp"
#include "cpu/simd/vector-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace splitq::cpu::SPLITQ_ISA {

inline constexpr std::int64_t kPanelWidth = kTileVecs * kLanes;
inline constexpr float kMinusInfinity = -__builtin_inff();

/// What of a call turns scores into logits. Scores are ±2^e q·k, an exact multiple: where logits are large, a factor rounded into
/// q would cost digits that the difference of two logits needs. A logit is `unit` scores in units of log2; where there is
/// softcap, ALiBi or bias, scores are first multiplied by the rest of the scale.
struct Logits {
  bool transformed = false;  // softcap, ALiBi or bias
  bool staged = false;       // bias or mask: an additive tile is read, -inf hides
  bool alibi = false;
  float softcap = 0.0f;
  float fold = 1.0f;        // ±2^e, multiplied into q; 0 for a scale of 0
  float scale = 1.0f;       // |scale| / 2^e, in [1, 2), applied where transformed
  double exact_unit = 1.0;  // log2 units of one score
  float unit = 1.0f;        // the same, rounded: what the exponentials use
  float largest = 0.0f;     // score that makes kLargestLogit

  explicit Logits(const Problem& p) {
    staged = p.tensors.bias.given() || p.tensors.mask.given();
    alibi = p.tensors.alibi_slopes.given();
    softcap = static_cast<float>(p.softcap);
    transformed = p.softcap > 0 || alibi || p.tensors.bias.given();
    int e = 0;
    const double all = std::fabs(p.scale) * (transformed ? 1.0 : kLog2e);
    const double rest = p.scale == 0 ? 1.0 : 2.0 * std::frexp(all, &e);  // all = rest * 2^(e - 1), rest in [1, 2)
    fold = p.scale == 0 ? 0.0f : static_cast<float>(std::copysign(std::exp2(e - 1), p.scale));
    scale = transformed ? static_cast<float>(rest) : 1.0f;
    exact_unit = transformed ? kLog2e : rest;
    unit = static_cast<float>(exact_unit);
    largest = static_cast<float>(static_cast<double>(kLargestLogit) / exact_unit);
  }
  bool per_score() const { return transformed || staged; }

  /// What a row sum's 1 stands for, in units of log2, where exponentials refer to the score `max`.
  double reference(float max) const { return static_cast<double>(max) * exact_unit; }
};

/// The lanes of a panel: which query each is, and what it sees. `lanes` is the width, or a vector where that is wider
/// (narrow panels repeat their rows).
struct PanelRows {
  std::int64_t width = 0;
  std::int64_t rows = 0;             // used lanes of the width
  std::int64_t* query = nullptr;     // [width] query index; -1: an unused lane
  std::int64_t* head = nullptr;      // [width] query head
  float* slope = nullptr;            // [lanes]
  std::int32_t* position = nullptr;  // [lanes] i + off - j0 of the current key tile
  std::int32_t* begin = nullptr;     // [lanes] visible keys, relative to j0
  std::int32_t* end = nullptr;

  std::int64_t lanes() const { return width < kLanes ? kLanes : width; }

  void layout(Arena& arena, std::int64_t panel_width) {
    width = panel_width;
    query = arena.take<std::int64_t>(width);
    head = arena.take<std::int64_t>(width);
    slope = arena.take<float>(lanes());
    position = arena.take<std::int32_t>(lanes());
    begin = arena.take<std::int32_t>(lanes());
    end = arena.take<std::int32_t>(lanes());
  }
};

inline float load_slope(const TensorView& slopes, std::int64_t b, std::int64_t h) {
  const auto* data = static_cast<const float*>(slopes.data);
  return slopes.rank == 1 ? data[h * slopes.strides[0]] : data[b * slopes.strides[0] + h * slopes.strides[1]];
}

/// Rows first .. first + width - 1 of the task.
inline void assign_rows(const Call& call, const Task& task, std::int64_t first, PanelRows& panel) {
  const std::int64_t group = call.problem.group();
  panel.rows = 0;
  for (std::int64_t l = 0; l < panel.width; ++l) {
    const std::int64_t row = task.row_begin + first + l;
    const bool used = row < task.row_end;
    panel.rows += used;
    panel.query[l] = used ? row / group : -1;
    panel.head[l] = used ? task.head_kv * group + row % group : -1;
  }
  const TensorView& slopes = call.tensors.alibi_slopes;
  for (std::int64_t l = 0; l < panel.lanes(); ++l) {
    const std::int64_t h = panel.head[l % panel.width];
    panel.slope[l] = slopes.given() && h >= 0 ? load_slope(slopes, task.sequence, h) : 0.0f;
  }
}

enum class Visible { kNone, kSome, kAll };

/// Places the panel before the key tile [j0, j1): what its rows see of it. Shrinks j1 to the last key that any row sees.
/// The lane arrays are only written where something reads them: some keys are hidden, or ALiBi.
inline Visible place(const Band& band, const Logits& logits, std::int64_t j0, std::int64_t* j1, PanelRows& panel) {
  // Queries rise with the lane, and so do both ends of what they see.
  const KeyRange first = visible_keys(band, panel.query[0]);
  const KeyRange last = visible_keys(band, panel.query[panel.rows - 1]);
  if (last.end <= j0 || first.begin >= *j1) return Visible::kNone;
  if (last.end < *j1) *j1 = last.end;
  const bool all = last.begin <= j0 && first.end >= *j1;
  if (all && !logits.alibi) return Visible::kAll;
  const auto relative = [&](long long j) {  // a tile is far smaller than int32
    const long long limit = 1 << 30;
    const long long x = j - j0;
    return static_cast<std::int32_t>(x < -limit ? -limit : x > limit ? limit : x);
  };
  for (std::int64_t l = 0; l < panel.lanes(); ++l) {
    const std::int64_t i = panel.query[l % panel.width];
    const KeyRange seen = i < 0 ? KeyRange{} : visible_keys(band, i);
    panel.position[l] = relative(i + band.off);
    panel.begin[l] = relative(seen.begin);
    panel.end[l] = relative(seen.end);
  }
  return all ? Visible::kAll : Visible::kSome;
}

/// Reads bias (or 0) and mask (hidden: -inf) of the panel into stage[keys][width].
inline void load_stage(const Call& call, std::int64_t sequence, const PanelRows& panel, std::int64_t j0,
                       std::int64_t keys, float* stage) {
  const auto element = [&](const TensorView& t, std::int64_t l) {  // offset of (b, h, i, j0), broadcasting
    const auto at = [&](int d, std::int64_t x) { return t.shape[d] == 1 ? 0 : x * t.strides[d]; };
    return at(0, sequence) + at(1, panel.head[l]) + at(2, panel.query[l]) + j0 * t.strides[3];
  };
  const TensorView& bias = call.tensors.bias;
  const TensorView& mask = call.tensors.mask;
  for (std::int64_t l = 0; l < panel.width; ++l) {
    if (panel.query[l] < 0) {
      for (std::int64_t k = 0; k < keys; ++k) stage[k * panel.width + l] = kMinusInfinity;
      continue;
    }
    if (bias.given()) {
      with_storage_type(bias.dtype, [&](auto x) {
        const auto* from = static_cast<const decltype(x)*>(bias.data) + element(bias, l);
        for (std::int64_t k = 0; k < keys; ++k) stage[k * panel.width + l] = to_float(from[k * bias.strides[3]]);
      });
    } else {
      for (std::int64_t k = 0; k < keys; ++k) stage[k * panel.width + l] = 0.0f;
    }
    if (mask.given()) {
      const auto* from = static_cast<const std::uint8_t*>(mask.data) + element(mask, l);
      for (std::int64_t k = 0; k < keys; ++k) {
        if (from[k * mask.strides[3]] == 0) stage[k * panel.width + l] = kMinusInfinity;
      }
    }
  }
}

/// Scores to logits (of `unit`), in place; hidden ones become -inf. `slopes`, where given, receives softcap's
/// derivative 1 - tanh² of each score.
inline void to_logits(const Logits& logits, const PanelRows& panel, bool band, std::int64_t keys, float* scores,
                      const float* stage, float* slopes) {
  const std::int64_t lanes = panel.lanes();
  const auto key_of_lane = hn::Iota(kI, 0);
  const bool narrow = panel.width < kLanes;
  for (std::int64_t f = 0; f < keys * panel.width; f += kLanes) {
    const std::int64_t r = f % lanes;
    auto key = hn::Set(kI, static_cast<std::int32_t>(f / panel.width));
    if (narrow) key = hn::Add(key, hn::ShiftRight<2>(key_of_lane));  // width 4
    Vec x = hn::LoadU(kF, scores + f);
    if (logits.transformed) x = hn::Mul(x, hn::Set(kF, logits.scale));
    if (logits.softcap > 0.0f) {
      const Vec t = tanh(hn::Div(x, hn::Set(kF, logits.softcap)));
      x = hn::Mul(t, hn::Set(kF, logits.softcap));
      if (slopes != nullptr) hn::StoreU(hn::NegMulAdd(t, t, hn::Set(kF, 1.0f)), kF, slopes + f);
    }
    if (logits.alibi) {
      const auto distance = hn::ConvertTo(kF, hn::Abs(hn::Sub(hn::LoadU(kI, panel.position + r), key)));
      x = hn::NegMulAdd(hn::LoadU(kF, panel.slope + r), distance, x);
    }
    auto hidden = hn::Lt(x, x);  // none
    if (logits.staged) {
      const Vec y = hn::LoadU(kF, stage + f);
      x = hn::Add(x, y);
      hidden = hn::Eq(y, hn::Set(kF, kMinusInfinity));
    }
    if (logits.transformed) {
      const auto below = hn::Eq(x, hn::Set(kF, kMinusInfinity));
      // The constant first: where x is NaN, x86's min and max return their second operand.
      x = hn::Max(hn::Set(kF, -logits.largest), hn::Min(hn::Set(kF, logits.largest), x));
      x = hn::IfThenElse(below, hn::Set(kF, kMinusInfinity), x);
    }
    if (band) {
      const auto before = hn::Lt(key, hn::LoadU(kI, panel.begin + r));
      const auto after = hn::Not(hn::Lt(key, hn::LoadU(kI, panel.end + r)));
      hidden = hn::Or(hidden, hn::RebindMask(kF, hn::Or(before, after)));
    }
    hn::StoreU(hn::IfThenElse(hidden, hn::Set(kF, kMinusInfinity), x), kF, scores + f);
  }
}

/// Scores of a panel in fp64, straight from the tensors: where fp32's range may not do, or a value is not finite.
inline void exact_scores(const Call& call, std::int64_t sequence, const Logits& logits, const PanelRows& panel,
                         const Rows& k, std::int64_t j0, std::int64_t keys, float* scores) {
  // Scaled scores are bounded here so that softcap, ALiBi and bias find a number, and again in to_logits.
  const double largest = static_cast<double>(logits.largest) / static_cast<double>(logits.scale);
  for (std::int64_t l = 0; l < panel.width; ++l) {
    const bool used = panel.query[l] >= 0;
    const Rows q = used ? call.q(sequence, panel.head[l]) : Rows{};
    for (std::int64_t j = 0; j < keys; ++j) {
      double sum = 0.0;
      for (std::int64_t d = 0; used && d < call.problem.head_dim; ++d) {
        sum += static_cast<double>(q.load(panel.query[l], d)) * static_cast<double>(k.load(j0 + j, d));
      }
      double x = sum * static_cast<double>(logits.fold);
      if (x > largest) x = largest;
      if (x < -largest && x >= -__DBL_MAX__) x = -largest;
      scores[j * panel.width + l] = static_cast<float>(x);
    }
  }
}

/// Can two rows with these largest magnitudes have a score, or a logit, beyond fp32's range? Then scores must be exact.
inline bool may_overflow(const Problem& p, const Logits& logits, std::uint32_t largest_q, std::uint32_t largest_k) {
  const double q = static_cast<double>(std::bit_cast<float>(largest_q));
  const double k = static_cast<double>(std::bit_cast<float>(largest_k));
  const double fold = std::max(1.0, std::fabs(static_cast<double>(logits.fold)));  // of q alone, too
  const double units = logits.exact_unit * static_cast<double>(logits.scale);
  return !(static_cast<double>(p.head_dim) * q * fold * std::max(k, 1.0) * units < static_cast<double>(kLargestLogit));
}

/// Kept weights' factor 1 / (1 - r), dropped ones' 0, into keep[keys][width]. j0 is a multiple of 4.
inline void load_keep(const Call& call, std::int64_t sequence, const PanelRows& panel, std::int64_t j0,
                      std::int64_t keys, float* keep) {
  const auto kept = static_cast<float>(1.0 / (1.0 - call.problem.dropout));
  for (std::int64_t l = 0; l < panel.width; ++l) {
    if (panel.query[l] < 0) continue;
    const auto head = static_cast<unsigned>(sequence * call.problem.heads_q + panel.head[l]);
    for (std::int64_t k = 0; k < keys; k += 4) {
      const PhiloxWords words =
          dropout_words(call.dropout, static_cast<unsigned>((j0 + k) / 4), static_cast<unsigned>(panel.query[l]), head);
      for (std::int64_t w = 0; w < 4 && k + w < keys; ++w) {
        keep[(k + w) * panel.width + l] = words.w[w] >= call.dropout.threshold ? kept : 0.0f;
      }
    }
  }
}

}  // namespace splitq::cpu::SPLITQ_ISA
HWY_AFTER_NAMESPACE();
