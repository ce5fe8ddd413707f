#include "support/option.hpp"

namespace splitq::testing {
namespace {

Lengths halves(Lengths lengths) {
  for (std::int64_t& n : lengths) n = (n + 1) / 2;
  return lengths;
}

constexpr Option kOptions[] = {
    {"scale", [](AttentionCase& c) { c.scale = 0.31; }},
    {"gqa", [](AttentionCase& c) { c.heads_q = 6, c.heads_kv = 2; }},
    {"mqa", [](AttentionCase& c) { c.heads_q = 4, c.heads_kv = 1; }},
    {"odd_head_dims", [](AttentionCase& c) { c.head_dim = 59, c.head_dim_v = 37; }},
    {"strided",
     [](AttentionCase& c) {
       c.layout_q = Layout::kHeadsFirst, c.layout_k = Layout::kStrided, c.layout_v = Layout::kGapped;
       c.layout_out = Layout::kTransposed, c.layout_grad = Layout::kStrided, c.layout_mask = Layout::kGapped;
     }},
    {"causal", [](AttentionCase& c) { c.causal = true; }},
    {"window_left", [](AttentionCase& c) { c.window_left = 11; }},
    {"window_both", [](AttentionCase& c) { c.window_left = 20, c.window_right = 5; }},
    {"softcap", [](AttentionCase& c) { c.softcap = 1.3; }},
    {"bias", [](AttentionCase& c) { c.bias = Broadcast::kFull; }},
    {"bias_over_batch_in_dtype", [](AttentionCase& c) { c.bias = Broadcast::kOverBatch, c.bias_in_dtype = true; }},
    {"bias_over_heads", [](AttentionCase& c) { c.bias = Broadcast::kOverHeads; }},
    {"bias_over_all", [](AttentionCase& c) { c.bias = Broadcast::kOverAll; }},
    {"alibi", [](AttentionCase& c) { c.alibi = Alibi::kPerHead; }},
    {"alibi_per_batch", [](AttentionCase& c) { c.alibi = Alibi::kPerBatchAndHead; }},
    {"mask", [](AttentionCase& c) { c.mask = Broadcast::kFull; }},
    {"mask_over_queries", [](AttentionCase& c) { c.mask = Broadcast::kOverQueries, c.mask_density = 0.4; }},
    {"sparse_mask", [](AttentionCase& c) { c.mask = Broadcast::kOverHeads, c.mask_density = 0.03; }},
    {"sink", [](AttentionCase& c) { c.sink = true; }},
    {"dropout", [](AttentionCase& c) { c.dropout = 0.25; }},
    {"dlse", [](AttentionCase& c) { c.dlse = true; }},
    {"nan_hidden", [](AttentionCase& c) { c.nan_hidden = true; }},
    {"packed",
     [](AttentionCase& c) {
       c.packed_q = {0, 37, 5, 0}, c.packed_k = {9, 70, 0, 3}, c.batch = 4, c.slack_rows = 2;
     }},
    {"used_lengths",
     [](AttentionCase& c) {
       c.used_q = halves(c.packed_q.empty() ? Lengths(c.batch, c.seqlen_q) : c.packed_q);
       c.used_k = halves(c.packed_k.empty() ? Lengths(c.batch, c.seqlen_k) : c.packed_k);
     }},
    {"paged",
     [](AttentionCase& c) {
       if (c.used_k.empty()) c.used_k = c.packed_k.empty() ? Lengths{70, 41} : c.packed_k;
       c.packed_k.clear();
       c.page_size = 16, c.backward = false;
     }},
};

}  // namespace

std::span<const Option> all_options() { return kOptions; }

AttentionCase case_with(DType dtype, const Option& first, const Option& second) {
  AttentionCase c;
  c.dtype = dtype;
  c.heads_q = c.heads_kv = 2, c.seqlen_q = 37, c.seqlen_k = 70, c.head_dim = 40;
  first.apply(c);
  if (&first != &second) second.apply(c);
  return c;
}

}  // namespace splitq::testing
