#include <sstream>

#include "support/attention_case.hpp"

namespace splitq::testing {
namespace {

constexpr const char* kLayouts[] = {"contiguous", "heads_first", "gapped", "strided", "transposed", "reversed"};
constexpr const char* kBroadcasts[] = {"none", "full", "over_batch", "over_heads", "over_queries", "over_all"};
constexpr const char* kDtypes[] = {"fp32", "fp16", "bf16", "int32", "int64", "bool"};

/// Writes "name=value" for what differs from the default case.
class Printer {
 public:
  template <class T>
  void operator()(const char* name, const T& value, const T& default_value) {
    if (value == default_value) return;
    text_ << ' ' << name << '=';
    write(value);
  }
  std::string text() const { return text_.str(); }

 private:
  template <class T>
  void write(const T& value) {
    text_ << value;
  }
  void write(bool value) { text_ << (value ? "yes" : "no"); }
  void write(Layout value) { text_ << kLayouts[static_cast<int>(value)]; }
  void write(Broadcast value) { text_ << kBroadcasts[static_cast<int>(value)]; }
  void write(Alibi value) { text_ << (value == Alibi::kPerHead ? "per_head" : "per_batch_and_head"); }
  void write(DType value) { text_ << kDtypes[static_cast<int>(value)]; }
  void write(const std::optional<double>& value) { text_ << *value; }
  void write(const Lengths& values) {
    for (std::size_t i = 0; i < values.size(); ++i) text_ << (i ? "," : "") << values[i];
  }

  std::ostringstream text_;
};

}  // namespace

std::string to_string(const AttentionCase& c) {
  std::ostringstream shape;
  shape << kDtypes[static_cast<int>(c.dtype)] << " batch=" << c.batch << " seqlen_q=" << c.seqlen_q
        << " seqlen_k=" << c.seqlen_k << " heads_q=" << c.heads_q << " heads_kv=" << c.heads_kv
        << " head_dim=" << c.head_dim << " head_dim_v=" << c.dim_v();
  const AttentionCase d;
  Printer print;
  print("packed_q", c.packed_q, d.packed_q);
  print("packed_k", c.packed_k, d.packed_k);
  print("used_q", c.used_q, d.used_q);
  print("used_k", c.used_k, d.used_k);
  print("page_size", c.page_size, d.page_size);
  print("slack_rows", c.slack_rows, d.slack_rows);
  print("index_dtype", c.index_dtype, d.index_dtype);
  print("scale", c.scale, d.scale);
  print("causal", c.causal, d.causal);
  print("window_left", c.window_left, d.window_left);
  print("window_right", c.window_right, d.window_right);
  print("softcap", c.softcap, d.softcap);
  print("dropout", c.dropout, d.dropout);
  print("bias", c.bias, d.bias);
  print("bias_in_dtype", c.bias_in_dtype, d.bias_in_dtype);
  print("mask", c.mask, d.mask);
  print("mask_density", c.mask_density, d.mask_density);
  print("alibi", c.alibi, d.alibi);
  print("sink", c.sink, d.sink);
  print("dlse", c.dlse, d.dlse);
  print("backward", c.backward, d.backward);
  print("layout_q", c.layout_q, d.layout_q);
  print("layout_k", c.layout_k, d.layout_k);
  print("layout_v", c.layout_v, d.layout_v);
  print("layout_out", c.layout_out, d.layout_out);
  print("layout_grad", c.layout_grad, d.layout_grad);
  print("layout_mask", c.layout_mask, d.layout_mask);
  print("nan_hidden", c.nan_hidden, d.nan_hidden);
  print("threads", c.execution.threads, 0);
  print("instruction_set", c.execution.instruction_set, std::string{});
  print("num_splits", c.execution.num_splits, std::int64_t{0});
  const auto every_step = c.execution.schedule.rescale == Schedule::Rescale::kEveryStep;
  const auto batch_heads = c.execution.schedule.parallel == Schedule::Parallel::kBatchHeads;
  print("rescale_every_step", every_step, false);
  print("parallel_batch_heads", batch_heads, false);
  return shape.str() + print.text();
}

}  // namespace splitq::testing
