#include "support/attention_case.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>

namespace splitq::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

oracle::Array normal(Rng& rng, std::vector<std::int64_t> shape) {
  oracle::Array a(std::move(shape));
  std::normal_distribution<double> distribution;
  for (double& x : a.values) x = distribution(rng);
  return a;
}

std::vector<std::int64_t> broadcast_shape(Broadcast kind, std::int64_t b, std::int64_t h, std::int64_t sq,
                                          std::int64_t sk) {
  const bool all = kind == Broadcast::kOverAll;
  return {all || kind == Broadcast::kOverBatch ? 1 : b, all || kind == Broadcast::kOverHeads ? 1 : h,
          all || kind == Broadcast::kOverQueries ? 1 : sq, sk};
}

Lengths cumulative(const Lengths& lengths) {
  Lengths sums{0};
  for (const std::int64_t n : lengths) sums.push_back(sums.back() + n);
  return sums;
}

std::int64_t longest(const Lengths& lengths) {
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

/// Pages in random order out of a pool with a few more; table entries that no length reaches are nonsense.
void make_pages(const AttentionCase& c, Rng& rng, oracle::Problem* pr) {
  pr->page_size = c.page_size;
  pr->max_pages = (pr->seqlen_k + c.page_size - 1) / c.page_size;
  pr->seqlen_k = pr->max_pages * c.page_size;
  constexpr std::int64_t kSpare = 3;
  const std::int64_t pages = pr->batch * pr->max_pages + kSpare;
  Lengths pool(pages);
  std::iota(pool.begin(), pool.end(), 0);
  std::shuffle(pool.begin(), pool.end(), rng);
  pr->block_table.assign(pool.begin(), pool.end() - kSpare);
  for (std::int64_t b = 0; b < pr->batch; ++b)
    for (std::int64_t page = 0; page < pr->max_pages; ++page)
      if (page * c.page_size >= pr->length_k(b)) pr->block_table[b * pr->max_pages + page] = pages + 12345;
}

void fill_head(oracle::Array& a, std::int64_t row, std::int64_t head, double value) {
  const auto begin = a.values.begin() + (row * a.shape[1] + head) * a.shape[2];
  std::fill(begin, begin + a.shape[2], value);
}

/// NaN in what must not be read into a result: rows outside every sequence, and, where asked for, keys and
/// bias elements that no query sees.
void poison(const AttentionCase& c, oracle::Problem* pr) {
  std::vector<char> used_q(pr->q.shape[0]);
  std::vector<char> seen_k(pr->k.shape[0] * pr->heads_kv);
  std::vector<char> seen_bias(pr->bias.values.size());
  for (std::int64_t b = 0; b < pr->batch; ++b) {
    const std::int64_t sq = pr->length_q(b), sk = pr->length_k(b);
    for (std::int64_t i = 0; i < sq; ++i) used_q[pr->row_q(b, i)] = 1;
    for (std::int64_t j = 0; j < sk && !c.nan_hidden; ++j)
      for (std::int64_t h = 0; h < pr->heads_kv; ++h) seen_k[pr->row_k(b, j) * pr->heads_kv + h] = 1;
    for (std::int64_t h = 0; h < pr->heads_q; ++h)
      for (std::int64_t i = 0; i < sq; ++i)
        for (std::int64_t j = 0; j < sk; ++j) {
          if (!pr->visible(b, h, i, j)) continue;
          seen_k[pr->row_k(b, j) * pr->heads_kv + pr->kv_head(h)] = 1;
          if (pr->bias.given()) seen_bias[oracle::broadcast_index(pr->bias, b, h, i, j)] = 1;
        }
  }
  for (std::size_t row = 0; row < used_q.size(); ++row)
    for (std::int64_t h = 0; h < pr->heads_q && !used_q[row]; ++h) {
      fill_head(pr->q, row, h, kNan);
      if (pr->dout.given()) fill_head(pr->dout, row, h, kNan);
    }
  for (std::size_t at = 0; at < seen_k.size(); ++at)
    if (!seen_k[at]) {
      fill_head(pr->k, at / pr->heads_kv, at % pr->heads_kv, kNan);
      fill_head(pr->v, at / pr->heads_kv, at % pr->heads_kv, kNan);
    }
  for (std::size_t at = 0; at < seen_bias.size() && c.nan_hidden; ++at)
    if (!seen_bias[at]) pr->bias.values[at] = kNan;
}

}  // namespace

oracle::Format format_of(DType dtype) {
  return dtype == DType::kFp16 ? oracle::kFp16 : dtype == DType::kBf16 ? oracle::kBf16 : oracle::kFp32;
}

oracle::Problem make_inputs(const AttentionCase& c, std::uint64_t seed) {
  Rng rng(seed);
  oracle::Problem pr;
  const bool packed_q = !c.packed_q.empty(), packed_k = !c.packed_k.empty();
  pr.batch = packed_q ? static_cast<std::int64_t>(c.packed_q.size()) : c.batch;
  pr.heads_q = c.heads_q, pr.heads_kv = c.heads_kv, pr.head_dim = c.head_dim, pr.head_dim_v = c.dim_v();
  pr.seqlen_q = packed_q ? longest(c.packed_q) : c.seqlen_q;
  pr.seqlen_k = packed_k ? longest(c.packed_k) : c.seqlen_k;
  if (packed_q) pr.cu_seqlens_q = cumulative(c.packed_q);
  if (packed_k) pr.cu_seqlens_k = cumulative(c.packed_k);
  pr.seqlens_q = c.used_q, pr.seqlens_k = c.used_k;
  if (c.page_size > 0) {
    if (pr.seqlens_k.empty()) pr.seqlens_k.assign(pr.batch, pr.seqlen_k);
    make_pages(c, rng, &pr);
  }

  pr.scale = c.scale.value_or(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
  pr.softcap = c.softcap, pr.dropout = c.dropout, pr.causal = c.causal;
  pr.window_left = c.window_left, pr.window_right = c.window_right;
  pr.seed = rng(), pr.offset = rng();

  const std::int64_t rows_q = packed_q ? pr.cu_seqlens_q.back() + c.slack_rows : pr.batch * pr.seqlen_q;
  const std::int64_t rows_k = c.page_size > 0 ? (pr.batch * pr.max_pages + 3) * c.page_size
                              : packed_k      ? pr.cu_seqlens_k.back() + c.slack_rows
                                              : pr.batch * pr.seqlen_k;
  pr.q = normal(rng, {rows_q, pr.heads_q, pr.head_dim});
  pr.k = normal(rng, {rows_k, pr.heads_kv, pr.head_dim});
  pr.v = normal(rng, {rows_k, pr.heads_kv, pr.head_dim_v});
  const auto shape = [&](Broadcast kind) {
    return broadcast_shape(kind, pr.batch, pr.heads_q, pr.seqlen_q, pr.seqlen_k);
  };
  if (c.bias != Broadcast::kNone) pr.bias = normal(rng, shape(c.bias));
  if (c.mask != Broadcast::kNone) {
    pr.mask = oracle::Array(shape(c.mask));
    std::bernoulli_distribution visible(c.mask_density);
    for (double& x : pr.mask.values) x = visible(rng);
  }
  if (c.alibi != Alibi::kNone) {
    pr.alibi_slopes = c.alibi == Alibi::kPerHead ? oracle::Array({pr.heads_q}) : oracle::Array({pr.batch, pr.heads_q});
    for (double& x : pr.alibi_slopes.values) x = std::uniform_real_distribution<double>(0.0, 0.5)(rng);
  }
  if (c.sink) pr.sink = normal(rng, {pr.heads_q});
  if (c.backward) {
    pr.dout = normal(rng, {rows_q, pr.heads_q, pr.head_dim_v});
    if (c.dlse)
      pr.dlse =
          normal(rng, packed_q ? std::vector{pr.heads_q, rows_q} : std::vector{pr.batch, pr.heads_q, pr.seqlen_q});
  }
  poison(c, &pr);
  round_inputs(c, &pr);
  return pr;
}

void round_inputs(const AttentionCase& c, oracle::Problem* pr) {
  const auto round = [](oracle::Array& a, DType dtype) {
    for (double& x : a.values) x = oracle::round_to(format_of(dtype), x);
  };
  for (oracle::Array* a : {&pr->q, &pr->k, &pr->v, &pr->dout}) round(*a, c.dtype);
  round(pr->bias, c.bias_dtype());
  for (oracle::Array* a : {&pr->alibi_slopes, &pr->sink, &pr->dlse}) round(*a, DType::kFp32);
}

}  // namespace splitq::testing
