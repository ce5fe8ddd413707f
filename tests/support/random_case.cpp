#include <algorithm>

#include "support/attention_case.hpp"

namespace splitq::testing {
namespace {

/// Lengths around the edges of the tiles that a kernel may use, and anything between.
std::int64_t random_length(Rng& rng) {
  if (rng() % 2) return pick<std::int64_t>(rng, {0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129});
  return static_cast<std::int64_t>(rng() % 100);
}

Lengths random_lengths(Rng& rng, std::size_t count) {
  Lengths lengths(count);
  for (std::int64_t& n : lengths) n = random_length(rng);
  return lengths;
}

Lengths random_up_to(Rng& rng, Lengths limits) {
  for (std::int64_t& n : limits) n = static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(n + 1));
  return limits;
}

Layout random_layout(Rng& rng) { return rng() % 2 ? Layout::kContiguous : static_cast<Layout>(rng() % 6); }

Broadcast random_broadcast(Rng& rng) { return static_cast<Broadcast>(1 + rng() % 5); }

}  // namespace

AttentionCase random_case(Rng& rng) {
  const auto one_in = [&rng](int n) { return rng() % n == 0; };
  AttentionCase c;
  c.dtype = pick<DType>(rng, {DType::kFp32, DType::kFp16, DType::kBf16});
  c.batch = 1 + rng() % 3;
  c.heads_kv = 1 + rng() % 3;
  c.heads_q = c.heads_kv * pick<std::int64_t>(rng, {1, 1, 2, 3, 8});
  c.seqlen_q = one_in(4) ? 1 : random_length(rng);
  c.seqlen_k = one_in(3) ? c.seqlen_q : random_length(rng);
  c.head_dim = pick<std::int64_t>(rng, {1, 2, 3, 8, 16, 31, 32, 40, 59, 64, 80, 111, 128});
  if (one_in(3)) c.head_dim_v = pick<std::int64_t>(rng, {1, 5, 16, 33, 64, 100, 128});

  c.backward = !one_in(3);
  const Lengths same_q(c.batch, c.seqlen_q), same_k(c.batch, c.seqlen_k);
  Lengths lengths_q = same_q, lengths_k = same_k;
  if (one_in(5)) {
    c.backward = false;
    c.page_size = pick<std::int64_t>(rng, {1, 3, 16, 64, 100});
    c.used_k = random_up_to(rng, same_k);
    if (one_in(3)) lengths_q = c.packed_q = random_lengths(rng, c.batch);
  } else if (one_in(3)) {
    lengths_q = c.packed_q = random_lengths(rng, c.batch);
    lengths_k = c.packed_k = one_in(2) ? c.packed_q : random_lengths(rng, c.batch);
  }
  if (!c.packed_q.empty() && one_in(3)) c.slack_rows = 1 + rng() % 5;
  if (one_in(5)) c.used_q = random_up_to(rng, lengths_q);
  if (c.page_size == 0 && one_in(5)) c.used_k = random_up_to(rng, lengths_k);
  if (one_in(2)) c.index_dtype = DType::kInt64;

  if (one_in(4)) c.scale = pick<double>(rng, {0.0, 0.07, 0.5, -0.3});
  c.causal = one_in(3);
  if (one_in(4)) c.window_left = rng() % 70;
  if (one_in(4)) c.window_right = rng() % 70;
  if (one_in(4)) c.softcap = pick<double>(rng, {0.5, 5.0, 30.0});
  if (one_in(4)) c.dropout = pick<double>(rng, {0.1, 0.5, 0.9});
  if (one_in(3)) c.bias = random_broadcast(rng), c.bias_in_dtype = one_in(2);
  if (one_in(4)) c.mask = random_broadcast(rng), c.mask_density = pick<double>(rng, {0.05, 0.5, 0.95});
  if (one_in(4)) c.alibi = one_in(2) ? Alibi::kPerHead : Alibi::kPerBatchAndHead;
  c.sink = one_in(4);
  c.dlse = one_in(3);
  c.nan_hidden = one_in(4);

  for (Layout* layout : {&c.layout_q, &c.layout_k, &c.layout_v, &c.layout_out, &c.layout_grad, &c.layout_mask})
    *layout = random_layout(rng);

  c.execution.threads = static_cast<int>(rng() % 4);
  c.execution.num_splits = pick<std::int64_t>(rng, {0, 0, 0, 1, 2, 5});
  if (one_in(4)) c.execution.schedule.rescale = Schedule::Rescale::kEveryStep;
  if (one_in(4)) c.execution.schedule.parallel = Schedule::Parallel::kBatchHeads;
  return c;
}

}  // namespace splitq::testing
