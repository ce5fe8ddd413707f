#include "cpu/key_sums.hpp"

#include <algorithm>

#include "cpu/parallel.hpp"

namespace splitq::cpu {
namespace {

Rows sum_rows(float* first, std::int64_t dim) {
  Rows rows;
  rows.base = reinterpret_cast<std::byte*>(first);
  rows.row_stride = dim * static_cast<std::int64_t>(sizeof(float));
  return rows;
}

std::int64_t row_floats(const Problem& problem) { return problem.head_dim + problem.head_dim_v; }

}  // namespace

KeySums::KeySums(Call& call, const Kernels& kernels, const PackedKeys& keys)
    : call_(call), kernels_(kernels), keys_(keys) {
  const Tensors& t = call.tensors;
  if (call.problem.packed_k() || t.seqlens_k.given()) {  // rows behind a length
    fill(t.dk, 0.0f);
    fill(t.dv, 0.0f);
  }
  const std::int64_t most =
      keys.most_of_round([&](std::int64_t b) { return call.sequences[static_cast<std::size_t>(b)].seqlen_k; });
  call.key_sums.resize(call.sequences.size() * static_cast<std::size_t>(call.problem.heads_kv));
  memory_ = allocate(static_cast<std::size_t>(most * row_floats(call.problem)) * sizeof(float));
}

template <class F>
void KeySums::for_each_pair(std::int64_t round, const F& f) {
  const PackedKeys::Pairs pairs = keys_.pairs(round);
  for_each_task(call_.plan.threads, pairs.end - pairs.begin, [&](int, std::int64_t i) {
    const std::int64_t pair = pairs.begin + i, heads = call_.problem.heads_kv;
    f(pair / heads, pair % heads, call_.key_sums[static_cast<std::size_t>(pair)]);
  });
}

void KeySums::open(std::int64_t round) {
  const PackedKeys::Pairs pairs = keys_.pairs(round);
  auto* next = reinterpret_cast<float*>(memory_.get());
  for (std::int64_t i = pairs.begin; i < pairs.end; ++i) {
    const std::int64_t rows = call_.sequences[static_cast<std::size_t>(i / call_.problem.heads_kv)].seqlen_k;
    KeySum& sum = call_.key_sums[static_cast<std::size_t>(i)];
    sum.dk = next;
    sum.dv = sum.dk + rows * call_.problem.head_dim;
    next = sum.dv + rows * call_.problem.head_dim_v;
  }
  for_each_pair(round, [&](std::int64_t sequence, std::int64_t, const KeySum& sum) {
    std::fill_n(sum.dk, call_.sequences[static_cast<std::size_t>(sequence)].seqlen_k * row_floats(call_.problem), 0.0f);
  });
}

void KeySums::close(std::int64_t round) {
  for_each_pair(round, [&](std::int64_t b, std::int64_t head, const KeySum& sum) {
    const Sequence& s = call_.sequences[static_cast<std::size_t>(b)];
    const Problem& p = call_.problem;
    kernels_.convert_rows(sum_rows(sum.dk, p.head_dim), rows_of(call_.tensors.dk, b, s.k_begin, head), s.seqlen_k,
                          p.head_dim);
    kernels_.convert_rows(sum_rows(sum.dv, p.head_dim_v), rows_of(call_.tensors.dv, b, s.k_begin, head), s.seqlen_k,
                          p.head_dim_v);
  });
}

std::size_t KeySums::bytes(const Problem& problem, const CpuPlan& plan) {
  const std::int64_t pairs = plan.pack_heads > 0  ? plan.pack_heads
                             : problem.packed_k() ? problem.heads_kv
                                                  : problem.batch * problem.heads_kv;
  return static_cast<std::size_t>(pairs * problem.max_seqlen_k * row_floats(problem)) * sizeof(float);
}

}  // namespace splitq::cpu
