#include "oracle/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kLogitBound = 0x1p126 * std::log(2.0);

/// Storage types of the plain computation; the oracle rounds nothing.
struct Rounding {
  bool exact = true;
  Format type = kFp32, bias_type = kFp32;
  double operator()(double x) const { return exact ? x : round_to(type, x); }
  double bias(double x) const { return exact ? x : round_to(bias_type, x); }
  double fp32(double x) const { return exact ? x : round_to(kFp32, x); }
};

/// One row of the attention matrix: query i of head h of sequence b against all keys of the sequence.
template <class Real>
struct Row {
  std::int64_t b, h, i;
  std::vector<char> visible;
  std::vector<Real> capped;  // logits after softcap, before bias and ALiBi
  std::vector<Real> x;       // logits
  std::vector<Real> p;       // weights before dropout, 0 where not visible
  std::vector<Real> factor;  // dropout: 0 or 1 / (1 - r); else 1
  Real sink;                 // the sink's logit, -infinity where there is none
  Real p_sink;               // its share of the denominator
  Real lse;
};

template <class Real>
Real dot(const double* a, const double* b, std::int64_t n) {
  Real sum = 0;
  for (std::int64_t d = 0; d < n; ++d) sum += static_cast<Real>(a[d]) * static_cast<Real>(b[d]);
  return sum;
}

const double* vector_at(const Array& a, std::int64_t row, std::int64_t head) {
  return a.values.data() + (row * a.shape[1] + head) * a.shape[2];
}
double* vector_at(Array& a, std::int64_t row, std::int64_t head) {
  return a.values.data() + (row * a.shape[1] + head) * a.shape[2];
}

/// Saturation; -infinity and NaN stay what they are.
template <class Real>
Real saturate(Real x) {
  const Real bound = static_cast<Real>(kLogitBound);
  if (std::isnan(x) || x == -std::numeric_limits<Real>::infinity()) return x;
  return std::clamp(x, -bound, bound);
}

/// A sum of finite numbers never becomes infinite.
template <class Real>
Real saturating_add(Real a, Real b) {
  const Real sum = a + b;
  const bool overflow = !std::isfinite(sum) && std::isfinite(a) && std::isfinite(b);
  return overflow ? std::copysign(static_cast<Real>(kLogitBound), sum) : sum;
}

/// Steps 1 to 3: the logit of one pair. The sum of products is the only place where fp32 can overflow on finite
/// input; it is then taken in double, so that both precisions agree on which bound a logit has reached.
template <class Real>
Real logit(const Problem& pr, const Row<Real>& row, std::int64_t j, Real* capped) {
  const double* q = vector_at(pr.q, pr.row_q(row.b, row.i), row.h);
  const double* k = vector_at(pr.k, pr.row_k(row.b, j), pr.kv_head(row.h));
  Real x = static_cast<Real>(pr.scale) * dot<Real>(q, k, pr.head_dim);
  if (!std::isfinite(x)) {
    const double wide = pr.scale * dot<double>(q, k, pr.head_dim);
    x = static_cast<Real>(std::isfinite(wide) ? std::clamp(wide, -kLogitBound, kLogitBound) : wide);
  }
  if (pr.softcap > 0) x = static_cast<Real>(pr.softcap) * std::tanh(x / static_cast<Real>(pr.softcap));
  *capped = x;
  if (pr.bias.given()) {
    const double bias = pr.bias.values[broadcast_index(pr.bias, row.b, row.h, row.i, j)];
    x = saturating_add(x, static_cast<Real>(bias));
  }
  if (pr.alibi_slopes.given()) {
    const bool per_batch = pr.alibi_slopes.shape.size() == 2;
    const double slope = per_batch ? pr.alibi_slopes(row.b, row.h) : pr.alibi_slopes(row.h);
    const std::int64_t distance = std::abs(row.i + pr.length_k(row.b) - pr.length_q(row.b) - j);
    x = saturating_add(x, -static_cast<Real>(slope) * static_cast<Real>(distance));
  }
  return x;
}

template <class Real>
Row<Real> compute_row(const Problem& pr, std::int64_t b, std::int64_t h, std::int64_t i) {
  const std::int64_t seqlen_k = pr.length_k(b);
  const Real none = -std::numeric_limits<Real>::infinity();
  Row<Real> row{b, h, i, {}, {}, {}, {}, {}, none, 0, none};
  row.visible.resize(seqlen_k), row.capped.resize(seqlen_k), row.x.assign(seqlen_k, none);
  row.p.resize(seqlen_k), row.factor.assign(seqlen_k, 1);

  Real largest = none;
  for (std::int64_t j = 0; j < seqlen_k; ++j) {
    if (!pr.visible(b, h, i, j)) continue;
    row.x[j] = saturate(logit(pr, row, j, &row.capped[j]));
    row.visible[j] = row.x[j] != none;
    largest = std::max(largest, row.x[j]);
  }
  if (pr.sink.given()) row.sink = saturate(static_cast<Real>(pr.sink(h)));
  largest = std::max(largest, row.sink);
  // With nothing to see, any finite number in place of the maximum keeps NaN out of exp().
  if (largest == none) largest = 0;

  Real sum = row.p_sink = std::exp(row.sink - largest);
  for (std::int64_t j = 0; j < seqlen_k; ++j) {
    if (row.visible[j]) sum += row.p[j] = std::exp(row.x[j] - largest);
  }
  if (sum == 0) return row;
  row.lse = largest + std::log(sum);
  row.p_sink /= sum;
  for (std::int64_t j = 0; j < seqlen_k; ++j) {
    if (row.visible[j]) row.p[j] /= sum;
    if (pr.dropout > 0) row.factor[j] = pr.keep(b, h, i, j) ? static_cast<Real>(1 / (1 - pr.dropout)) : 0;
  }
  return row;
}

template <class Real, class Visit>
void for_each_row(const Problem& pr, Visit&& visit) {
  for (std::int64_t b = 0; b < pr.batch; ++b)
    for (std::int64_t h = 0; h < pr.heads_q; ++h)
      for (std::int64_t i = 0; i < pr.length_q(b); ++i) visit(compute_row<Real>(pr, b, h, i));
}

/// a += factor * b
template <class Real>
void add_scaled(Real* a, Real factor, const double* b, std::int64_t n) {
  for (std::int64_t d = 0; d < n; ++d) a[d] += factor * static_cast<Real>(b[d]);
}

template <class Real>
void forward_row(const Problem& pr, const Row<Real>& row, const Rounding& round, Results& results) {
  std::vector<Real> o(pr.head_dim_v);
  for (std::size_t j = 0; j < row.p.size(); ++j) {
    if (!row.visible[j]) continue;
    const Real weight = static_cast<Real>(round(row.p[j] * row.factor[j]));
    add_scaled(o.data(), weight, vector_at(pr.v, pr.row_k(row.b, j), pr.kv_head(row.h)), pr.head_dim_v);
  }
  double* out = vector_at(results.out, pr.row_q(row.b, row.i), row.h);
  std::transform(o.begin(), o.end(), out, [&](Real x) { return round(x); });
  results.softmax_lse.values[pr.lse_index(row.b, row.h, row.i)] = round.fp32(row.lse);
}

/// Weights from a stored softmax_lse instead of the exact sum.
template <class Real>
void take_weights_from(double softmax_lse, Row<Real>& row) {
  const Real lse = static_cast<Real>(softmax_lse);
  for (std::size_t j = 0; j < row.p.size(); ++j)
    if (row.visible[j]) row.p[j] = std::exp(row.x[j] - lse);
  if (row.p_sink != 0) row.p_sink = std::exp(row.sink - lse);
}

/// Gradients are summed in Real, and rounded once at the end.
template <class Real>
struct Sums {
  std::vector<Real> dq, dk, dv, dbias, dsink;
};

template <class Real>
void backward_row(const Problem& pr, const Row<Real>& row, const Rounding& round, const Array& out, Sums<Real>& sums) {
  const std::int64_t row_q = pr.row_q(row.b, row.i);
  const std::int64_t kv_head = pr.kv_head(row.h);
  const double* dout = vector_at(pr.dout, row_q, row.h);
  const double* q = vector_at(pr.q, row_q, row.h);
  const Real scale = static_cast<Real>(pr.scale);
  const Real delta = dot<Real>(dout, vector_at(out, row_q, row.h), pr.head_dim_v);
  const Real dlse = pr.dlse.given() ? static_cast<Real>(pr.dlse.values[pr.lse_index(row.b, row.h, row.i)]) : Real{0};

  for (std::size_t j = 0; j < row.p.size(); ++j) {
    if (!row.visible[j]) continue;
    const std::int64_t row_k = pr.row_k(row.b, j);
    const Real dp = row.factor[j] * dot<Real>(dout, vector_at(pr.v, row_k, kv_head), pr.head_dim_v);
    const Real dx = row.p[j] * (dp - delta + dlse);
    if (pr.bias.given()) sums.dbias[broadcast_index(pr.bias, row.b, row.h, row.i, j)] += dx;
    const Real cap_ratio = pr.softcap > 0 ? row.capped[j] / static_cast<Real>(pr.softcap) : Real{0};
    const Real ds = static_cast<Real>(round(dx * (1 - cap_ratio * cap_ratio)));
    const Real weight = static_cast<Real>(round(row.p[j] * row.factor[j]));

    add_scaled(&sums.dq[(row_q * pr.heads_q + row.h) * pr.head_dim], scale * ds, vector_at(pr.k, row_k, kv_head),
               pr.head_dim);
    add_scaled(&sums.dk[(row_k * pr.heads_kv + kv_head) * pr.head_dim], scale * ds, q, pr.head_dim);
    add_scaled(&sums.dv[(row_k * pr.heads_kv + kv_head) * pr.head_dim_v], weight, dout, pr.head_dim_v);
  }
  if (pr.sink.given()) sums.dsink[row.h] += row.p_sink * (dlse - delta);
}

/// `given`: the results of a forward that the backward starts from; null: the exact ones.
template <class Real>
Results compute(const Problem& pr, const Rounding& round, const Results* given) {
  Results results;
  // Rows that belong to no sequence keep these values.
  results.out = Array({pr.q.shape[0], pr.heads_q, pr.head_dim_v});
  results.softmax_lse = pr.cu_seqlens_q.empty() ? Array({pr.batch, pr.heads_q, pr.seqlen_q}, -kInfinity)
                                                : Array({pr.heads_q, pr.q.shape[0]}, -kInfinity);
  for_each_row<Real>(pr, [&](const Row<Real>& row) { forward_row(pr, row, round, results); });
  if (!pr.dout.given()) return results;

  const auto zeros = [](const Array& like) { return std::vector<Real>(like.values.size()); };
  Sums<Real> sums{zeros(pr.q), zeros(pr.k), zeros(pr.v), zeros(pr.bias), zeros(pr.sink)};
  for_each_row<Real>(pr, [&](Row<Real> row) {
    if (given) take_weights_from(given->softmax_lse.values[pr.lse_index(row.b, row.h, row.i)], row);
    backward_row(pr, row, round, given ? given->out : results.out, sums);
  });

  const auto rounded = [](const std::vector<Real>& sum, const Array& like, auto&& rounding) {
    Array result = like;
    std::transform(sum.begin(), sum.end(), result.values.begin(), rounding);
    return result;
  };
  results.dq = rounded(sums.dq, pr.q, round);
  results.dk = rounded(sums.dk, pr.k, round);
  results.dv = rounded(sums.dv, pr.v, round);
  results.dbias = rounded(sums.dbias, pr.bias, [&](double x) { return round.bias(x); });
  results.dsink = rounded(sums.dsink, pr.sink, [&](double x) { return round.fp32(x); });
  return results;
}

}  // namespace

Results attention(const Problem& problem) { return compute<double>(problem, Rounding{}, nullptr); }

Results materialised_attention(const Problem& problem, Format type, Format bias_type, const Results& given) {
  return compute<float>(problem, Rounding{false, type, bias_type}, &given);
}

}  // namespace oracle
