// The end of forward: the one division by the row sum, the sink, the log-sum-exp; and the merging of split keys.
#pragma once

#include <cmath>

#include "cpu/simd/scores-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace splitq::cpu::SPLITQ_ISA {

/// Writes one output row from its unnormalised sum over keys and its row sum, both in units of 2^reference.
inline void finish_row(const Call& call, std::int64_t sequence, std::int64_t head, std::int64_t query, const float* row,
                       double reference, float sum, bool normalised) {
  const Tensors& t = call.tensors;
  double top = reference;  // that of `total`
  double total = sum;
  double share = 1.0;  // of the output's unit in it
  if (t.sink.given()) {
    const double sink = static_cast<double>(static_cast<const float*>(t.sink.data)[head * t.sink.strides[0]]) * kLog2e;
    if (!(sink <= -__DBL_MAX__)) {                   // a sink of -inf is none
      top = sum == 0.0f || sink > top ? sink : top;  // a row that saw no key has no maximum
      share = sum == 0.0f ? 0.0 : std::exp2(reference - top);
      total = total * share + std::exp2(sink - top);
    }
  }
  const double inverse = sum == 0.0f ? 0.0 : (normalised ? static_cast<double>(sum) : 1.0) * share / total;
  store_row(call.out(sequence, head), query, row, call.problem.head_dim_v, static_cast<float>(inverse));
  if (t.softmax_lse.given()) {
    *call.lse(t.softmax_lse, sequence, head, query) =
        static_cast<float>(total == 0.0 ? -HUGE_VAL : (top + std::log2(total)) * kLn2);
  }
}

/// Where split `split` of row r of the task stands among the partial results.
inline std::int64_t partial_row(const Call& call, const Task& task, std::int64_t split, std::int64_t r) {
  const std::int64_t rows = call.rows(task.sequence);
  return call.first_partial[task.sequence] + (split * call.problem.heads_kv + task.head_kv) * rows + r;
}

/// Writes one row of a task: to the output, or to its split's partial results.
inline void emit_row(const Call& call, const Task& task, std::int64_t r, const float* row, float max, float sum,
                     bool normalised) {
  const std::int64_t group = call.problem.group();
  if (task.split < 0) {
    finish_row(call, task.sequence, task.head_kv * group + r % group, r / group, row,
               Logits(call.problem).reference(max), sum, normalised);
    return;
  }
  const std::int64_t at = partial_row(call, task, task.split, r);
  const float factor = normalised ? sum : 1.0f;
  for (std::int64_t d = 0; d < call.problem.head_dim_v; ++d) {
    call.partial_out[at * call.problem.head_dim_v + d] = factor * row[d];
  }
  call.partial_max[at] = max;
  call.partial_sum[at] = sum;
}

/// Combines the splits of the task's rows.
inline void merge(const Call& call, const Task& task, Arena arena) {
  const std::int64_t group = call.problem.group();
  const std::int64_t dim = call.problem.head_dim_v;
  const Logits logits(call.problem);
  float* row = arena.take<float>(dim);
  const std::int64_t splits = call.splits(task.sequence);
  for (std::int64_t r = task.row_begin; r < task.row_end; ++r) {
    float max = kMinusInfinity;
    for (std::int64_t s = 0; s < splits && max == max; ++s) {
      const float m = call.partial_max[partial_row(call, task, s, r)];
      max = m <= max ? max : m;  // a NaN wins
    }
    float sum = 0.0f;
    for (std::int64_t d = 0; d < dim; ++d) row[d] = 0.0f;
    for (std::int64_t s = 0; s < splits; ++s) {
      const std::int64_t at = partial_row(call, task, s, r);
      if (call.partial_sum[at] == 0.0f) continue;  // saw no key
      const float share = std::exp2((call.partial_max[at] - max) * logits.unit);
      sum += share * call.partial_sum[at];
      for (std::int64_t d = 0; d < dim; ++d) row[d] += share * call.partial_out[at * dim + d];
    }
    finish_row(call, task.sequence, task.head_kv * group + r % group, r / group, row, logits.reference(max), sum,
               false);
  }
}

}  // namespace splitq::cpu::SPLITQ_ISA
HWY_AFTER_NAMESPACE();
