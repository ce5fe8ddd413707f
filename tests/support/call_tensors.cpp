#include "support/run_case.hpp"

namespace splitq::testing {
namespace {

using Shape = std::vector<std::int64_t>;

/// (rows, heads, dim) of the oracle as the library's shape: (outer, inner, heads, dim), packed as it is.
Shape unflatten(const oracle::Array& a, bool packed, std::int64_t outer, std::int64_t inner) {
  if (packed) return a.shape;
  return {outer, inner, a.shape[1], a.shape[2]};
}

}  // namespace

CallTensors::CallTensors(const AttentionCase& c, const oracle::Problem& pr) {
  const bool packed_q = !pr.cu_seqlens_q.empty(), packed_k = !pr.cu_seqlens_k.empty();
  const bool paged = pr.page_size > 0;
  const std::int64_t outer_k = paged ? pr.k.shape[0] / pr.page_size : pr.batch;
  const std::int64_t inner_k = paged ? pr.page_size : pr.seqlen_k;
  const Shape shape_q = unflatten(pr.q, packed_q, pr.batch, pr.seqlen_q);
  const Shape shape_k = unflatten(pr.k, packed_k, outer_k, inner_k);
  const Shape shape_v = unflatten(pr.v, packed_k, outer_k, inner_k);
  Shape shape_out = shape_q;
  shape_out.back() = pr.head_dim_v;
  const Shape shape_lse = packed_q ? Shape{pr.heads_q, pr.q.shape[0]} : Shape{pr.batch, pr.heads_q, pr.seqlen_q};

  q = Tensor(c.dtype, pr.q, shape_q, c.layout_q);
  k = Tensor(c.dtype, pr.k, shape_k, c.layout_k);
  v = Tensor(c.dtype, pr.v, shape_v, c.layout_v);
  out = Tensor(c.dtype, shape_out, c.layout_out);
  softmax_lse = Tensor(DType::kFp32, shape_lse, c.layout_out);

  if (pr.bias.given()) bias = Tensor(c.bias_dtype(), pr.bias, pr.bias.shape, c.layout_mask);
  if (pr.mask.given()) mask = Tensor(DType::kBool, pr.mask, pr.mask.shape, c.layout_mask);
  if (pr.alibi_slopes.given()) alibi_slopes = Tensor(DType::kFp32, pr.alibi_slopes, pr.alibi_slopes.shape);
  if (pr.sink.given()) sink = Tensor(DType::kFp32, pr.sink, pr.sink.shape);

  const auto indices = [&](const Lengths& values) { return Tensor(c.index_dtype, values, Shape{std::ssize(values)}); };
  if (packed_q) cu_seqlens_q = indices(pr.cu_seqlens_q);
  if (packed_k) cu_seqlens_k = indices(pr.cu_seqlens_k);
  if (!pr.seqlens_q.empty()) seqlens_q = indices(pr.seqlens_q);
  if (!pr.seqlens_k.empty()) seqlens_k = indices(pr.seqlens_k);
  if (paged) block_table = Tensor(c.index_dtype, pr.block_table, {pr.batch, pr.max_pages});

  if (pr.dout.given()) {
    dout = Tensor(c.dtype, pr.dout, shape_out, c.layout_out);
    if (pr.dlse.given()) dlse = Tensor(DType::kFp32, pr.dlse, shape_lse, c.layout_out);
    dq = Tensor(c.dtype, shape_q, c.layout_grad);
    dk = Tensor(c.dtype, shape_k, c.layout_grad);
    dv = Tensor(c.dtype, shape_v, c.layout_grad);
    if (bias.given()) dbias = Tensor(c.bias_dtype(), pr.bias.shape, c.layout_grad);
    if (sink.given()) dsink = Tensor(DType::kFp32, pr.sink.shape);
  }

  if (c.scale) options.scale = pr.scale;
  options.causal = pr.causal;
  options.window_left = pr.window_left, options.window_right = pr.window_right;
  options.softcap = pr.softcap, options.dropout = pr.dropout;
  options.seed = pr.seed, options.offset = pr.offset;
  options.bias = bias.view(), options.mask = mask.view();
  options.alibi_slopes = alibi_slopes.view(), options.sink = sink.view();
  options.cu_seqlens_q = cu_seqlens_q.view(), options.cu_seqlens_k = cu_seqlens_k.view();
  options.seqlens_q = seqlens_q.view(), options.seqlens_k = seqlens_k.view();
  options.block_table = block_table.view();
}

ForwardTensors CallTensors::forward() const { return {q.view(), k.view(), v.view(), out.view(), softmax_lse.view()}; }

BackwardTensors CallTensors::backward() const {
  return {dout.view(), q.view(),  k.view(),  v.view(),    out.view(),   softmax_lse.view(),
          dq.view(),   dk.view(), dv.view(), dlse.view(), dbias.view(), dsink.view()};
}

std::vector<std::pair<std::string, const Tensor*>> CallTensors::inputs() const {
  return {{"q", &q},
          {"k", &k},
          {"v", &v},
          {"dout", &dout},
          {"dlse", &dlse},
          {"bias", &bias},
          {"mask", &mask},
          {"alibi_slopes", &alibi_slopes},
          {"sink", &sink},
          {"cu_seqlens_q", &cu_seqlens_q},
          {"cu_seqlens_k", &cu_seqlens_k},
          {"seqlens_q", &seqlens_q},
          {"seqlens_k", &seqlens_k},
          {"block_table", &block_table}};
}

std::vector<std::pair<std::string, const Tensor*>> CallTensors::outputs() const {
  return {{"out", &out},    {"softmax_lse", &softmax_lse}, {"dq", &dq}, {"dk", &dk}, {"dv", &dv}, {"dbias", &dbias},
          {"dsink", &dsink}};
}

oracle::Results results_of(const CallTensors& t) {
  // The oracle's tensors have rows where the library's have (B, S).
  const auto rows = [](const Tensor& tensor) {
    oracle::Array a = tensor.load();
    if (a.shape.size() == 4) a.shape = {a.shape[0] * a.shape[1], a.shape[2], a.shape[3]};
    return a;
  };
  return {rows(t.out), t.softmax_lse.load(), rows(t.dq), rows(t.dk), rows(t.dv), t.dbias.load(), t.dsink.load()};
}

}  // namespace splitq::testing
