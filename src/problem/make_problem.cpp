// From the views of a call to its description, or to the reason why it is not one.
#include <fmt/format.h>

#include <cmath>

#include "problem/features.hpp"
#include "problem/names.hpp"
#include "problem/shape.hpp"
#include "problem/views.hpp"

namespace splitq {
namespace {

using Infos = TensorSet<TensorInfo>;

Status check_required(Direction direction, const Infos& t) {
  Status status;
  auto require = [&](const char* name, const TensorInfo& tensor) {
    if (status.ok() && !tensor.given()) {
      status = Status::invalid(fmt::format("{}: not given; must be given to {}", name, to_string(direction)));
    }
  };
  require("q", t.q), require("k", t.k), require("v", t.v), require("out", t.out);
  if (direction == Direction::kBackward) {
    require("softmax_lse", t.softmax_lse), require("dout", t.dout);
    require("dq", t.dq), require("dk", t.dk), require("dv", t.dv);
  }
  return status;
}

/// Which optional tensors go with which.
Status check_combination(const Infos& t) {
  auto needs = [](const char* name, const TensorInfo& tensor, const char* needed_name,
                  const TensorInfo& needed) -> Status {
    if (!tensor.given() || needed.given()) return {};
    return Status::invalid(fmt::format("{}: given without {}; must come with it or not at all", name, needed_name));
  };
  auto excludes = [](const char* name, const TensorInfo& tensor, const char* other_name,
                     const TensorInfo& other) -> Status {
    if (!tensor.given() || !other.given()) return {};
    return Status::invalid(fmt::format("{}: given together with {}; only one of them may be", name, other_name));
  };
  SPLITQ_TRY(excludes("block_table", t.block_table, "cu_seqlens_k", t.cu_seqlens_k));
  SPLITQ_TRY(needs("block_table", t.block_table, "seqlens_k", t.seqlens_k));
  SPLITQ_TRY(needs("cu_seqlens_k", t.cu_seqlens_k, "cu_seqlens_q", t.cu_seqlens_q));
  if (!t.block_table.given()) SPLITQ_TRY(needs("cu_seqlens_q", t.cu_seqlens_q, "cu_seqlens_k", t.cu_seqlens_k));
  SPLITQ_TRY(needs("dbias", t.dbias, "bias", t.bias));
  SPLITQ_TRY(needs("dsink", t.dsink, "sink", t.sink));
  return {};
}

Status check_types(const Infos& t) {
  SPLITQ_TRY(match_type("q", t.q, {DType::kFp32, DType::kFp16, DType::kBf16}));
  Status status;
  auto require = [&](const char* name, const TensorInfo& tensor, std::initializer_list<DType> types,
                     const char* because) {
    if (status.ok()) status = match_type(name, tensor, types, because);
  };
  auto as_q = [&](const char* name, const TensorInfo& tensor) {
    require(name, tensor, {t.q.dtype}, ", the type of q");
  };
  as_q("k", t.k), as_q("v", t.v), as_q("out", t.out), as_q("dout", t.dout);
  as_q("dq", t.dq), as_q("dk", t.dk), as_q("dv", t.dv);

  auto fp32 = [&](const char* name, const TensorInfo& tensor) { require(name, tensor, {DType::kFp32}, ""); };
  fp32("softmax_lse", t.softmax_lse), fp32("dlse", t.dlse), fp32("alibi_slopes", t.alibi_slopes);
  fp32("sink", t.sink), fp32("dsink", t.dsink);

  auto fp32_or_as_q = [&](const char* name, const TensorInfo& tensor) {
    if (status.ok()) status = match_fp32_or(name, tensor, t.q.dtype, "q");
  };
  fp32_or_as_q("bias", t.bias), fp32_or_as_q("dbias", t.dbias);
  require("mask", t.mask, {DType::kBool}, "");

  auto index = [&](const char* name, const TensorInfo& tensor) {
    require(name, tensor, {DType::kInt32, DType::kInt64}, "");
  };
  index("cu_seqlens_q", t.cu_seqlens_q), index("cu_seqlens_k", t.cu_seqlens_k);
  index("seqlens_q", t.seqlens_q), index("seqlens_k", t.seqlens_k), index("block_table", t.block_table);
  return status;
}

/// The shape table of docs/semantics.md, and the sizes that follow from it.
Status check_shapes(const Infos& t, Problem* problem) {
  const bool packed_q = t.cu_seqlens_q.given(), packed_k = t.cu_seqlens_k.given(), paged = t.block_table.given();
  Extent batch{"B"}, heads_q{"Hq"}, heads_kv{"Hkv"}, head_dim{"D"}, head_dim_v{"Dv"};
  Extent rows_q{packed_q ? "total_q" : "Sq"}, rows_k{packed_k ? "total_k" : "Sk"};
  Extent pages{"pages"}, page_size{"page_size"}, max_pages{"max_pages"};

  auto like_q = [&](const char* name, const TensorInfo& tensor, Extent& width) {
    return packed_q ? match(name, tensor, {{rows_q, heads_q, width}})
                    : match(name, tensor, {{batch, rows_q, heads_q, width}});
  };
  auto like_k = [&](const char* name, const TensorInfo& tensor, Extent& width) {
    if (paged) return match(name, tensor, {{pages, page_size, heads_kv, width}});
    return packed_k ? match(name, tensor, {{rows_k, heads_kv, width}})
                    : match(name, tensor, {{batch, rows_k, heads_kv, width}});
  };
  auto like_lse = [&](const char* name, const TensorInfo& tensor) {
    return packed_q ? match(name, tensor, {{heads_q, rows_q}}) : match(name, tensor, {{batch, heads_q, rows_q}});
  };
  // Where lengths differ, a bias or a mask covers the longest; check_indices() compares.
  auto like_logits = [&](const char* name, const TensorInfo& tensor) {
    Extent longest_q{"max Sq"}, longest_k{"max Sk"};
    return match(name, tensor,
                 {{or_one(batch), or_one(heads_q), or_one(packed_q ? longest_q : rows_q),
                   packed_k || paged ? longest_k : rows_k}});
  };

  SPLITQ_TRY(match("cu_seqlens_q", t.cu_seqlens_q, {{plus_one(batch)}}));
  SPLITQ_TRY(like_q("q", t.q, head_dim));
  SPLITQ_TRY(like_k("k", t.k, head_dim));
  SPLITQ_TRY(like_k("v", t.v, head_dim_v));
  SPLITQ_TRY(like_q("out", t.out, head_dim_v));
  SPLITQ_TRY(like_q("dout", t.dout, head_dim_v));
  SPLITQ_TRY(like_q("dq", t.dq, head_dim));
  SPLITQ_TRY(like_k("dk", t.dk, head_dim));
  SPLITQ_TRY(like_k("dv", t.dv, head_dim_v));
  SPLITQ_TRY(like_lse("softmax_lse", t.softmax_lse));
  SPLITQ_TRY(like_lse("dlse", t.dlse));
  SPLITQ_TRY(like_logits("bias", t.bias));
  SPLITQ_TRY(like_logits("mask", t.mask));
  if (t.dbias.given() && (t.dbias.rank != t.bias.rank || t.dbias.shape != t.bias.shape)) {
    return Status::invalid(
        fmt::format("dbias: shape {}; must be {}, the shape of bias", shape_string(t.dbias), shape_string(t.bias)));
  }
  SPLITQ_TRY(match("alibi_slopes", t.alibi_slopes, {{heads_q}, {batch, heads_q}}));
  SPLITQ_TRY(match("sink", t.sink, {{heads_q}}));
  SPLITQ_TRY(match("dsink", t.dsink, {{heads_q}}));
  SPLITQ_TRY(match("cu_seqlens_k", t.cu_seqlens_k, {{plus_one(batch)}}));
  SPLITQ_TRY(match("seqlens_q", t.seqlens_q, {{batch}}));
  SPLITQ_TRY(match("seqlens_k", t.seqlens_k, {{batch}}));
  SPLITQ_TRY(match("block_table", t.block_table, {{batch, max_pages}}));

  problem->batch = batch.value;
  problem->heads_q = heads_q.value;
  problem->heads_kv = heads_kv.value;
  problem->head_dim = head_dim.value;
  problem->head_dim_v = head_dim_v.value;
  problem->max_seqlen_q = rows_q.value;
  problem->max_seqlen_k = rows_k.value;
  if (!paged) return {};
  problem->page_size = page_size.value;
  if (__builtin_mul_overflow(max_pages.value, page_size.value, &problem->max_seqlen_k)) {
    return Status::invalid(fmt::format("block_table: shape {} with pages of {}; must reach fewer than 2^63 keys",
                                       shape_string(t.block_table), page_size.value));
  }
  return {};
}

/// A window side that reaches every key of the longest sequence is none.
void fold_windows(bool causal, Problem* problem) {
  if (causal) problem->window_right = 0;
  if (problem->window_left >= problem->max_seqlen_k - 1) problem->window_left = -1;
  if (problem->window_right >= problem->max_seqlen_q - 1) problem->window_right = -1;
}

Status make(Direction direction, const Tensors& tensors, const Options& options, Problem* out) {
  SPLITQ_TRY(check_views(direction, tensors));
  Problem p;
  p.direction = direction;
  p.tensors = info(tensors);
  SPLITQ_TRY(check_required(direction, p.tensors));
  SPLITQ_TRY(check_combination(p.tensors));
  SPLITQ_TRY(check_types(p.tensors));
  SPLITQ_TRY(check_shapes(p.tensors, &p));

  p.device = resolve_device(tensors.q.device);
  p.dtype = p.tensors.q.dtype;
  p.scale = options.scale ? *options.scale : p.head_dim > 0 ? 1.0 / std::sqrt(static_cast<double>(p.head_dim)) : 1.0;
  p.softcap = options.softcap;
  p.dropout = options.dropout;
  p.deterministic = options.deterministic;
  p.window_left = options.window_left;
  p.window_right = options.window_right;
  SPLITQ_TRY(check_limits(p));
  if (p.heads_q % p.heads_kv != 0) {
    return Status::invalid(fmt::format("q: {} heads; must be a multiple of the {} heads of k", p.heads_q, p.heads_kv));
  }
  if (p.dropout > 0) p.seed = options.seed, p.offset = options.offset;  // they mean nothing without it
  fold_windows(options.causal, &p);
  SPLITQ_TRY(check_features(p));
  *out = p;
  return {};
}

}  // namespace

Status make_problem(const ForwardTensors& tensors, const Options& options, Problem* problem) {
  return make(Direction::kForward, gather(tensors, options), options, problem);
}

Status make_problem(const BackwardTensors& tensors, const Options& options, Problem* problem) {
  return make(Direction::kBackward, gather(tensors, options), options, problem);
}

}  // namespace splitq
