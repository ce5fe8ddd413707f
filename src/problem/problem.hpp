// What is asked: one validated, plain description of an attention call, without its pointers.
// Everything behind this point (plan, backends) may rely on what make_problem() checked.
#pragma once

#include <cstdint>
#include <string>

#include "problem/status.hpp"
#include "splitq/splitq.hpp"

namespace splitq {

enum class Direction : std::int32_t { kForward, kBackward };

/// Shape, strides and type of one tensor; rank 0 where it is not given.
struct TensorInfo {
  DType dtype = DType::kFp32;
  int rank = 0;
  std::array<std::int64_t, kMaxRank> shape{};
  std::array<std::int64_t, kMaxRank> strides{};
  bool given() const { return rank != 0; }
  bool operator==(const TensorInfo&) const = default;
};

TensorInfo info(const TensorView& view);

/// Every tensor of a call, by name. What a direction does not use stays not given.
/// `Tensors` holds the views, `Problem` their infos: for_each_tensor() walks both in one order.
template <class T>
struct TensorSet {
  T q, k, v, out, softmax_lse;
  T dout, dq, dk, dv, dlse, dbias, dsink;
  T bias, mask, alibi_slopes, sink;
  T cu_seqlens_q, cu_seqlens_k, seqlens_q, seqlens_k, block_table;
  bool operator==(const TensorSet&) const = default;
};

template <class Set, class F>
void for_each_tensor(Set& t, F&& f) {
  f("q", t.q), f("k", t.k), f("v", t.v), f("out", t.out), f("softmax_lse", t.softmax_lse);
  f("dout", t.dout), f("dq", t.dq), f("dk", t.dk), f("dv", t.dv);
  f("dlse", t.dlse), f("dbias", t.dbias), f("dsink", t.dsink);
  f("bias", t.bias), f("mask", t.mask), f("alibi_slopes", t.alibi_slopes), f("sink", t.sink);
  f("cu_seqlens_q", t.cu_seqlens_q), f("cu_seqlens_k", t.cu_seqlens_k);
  f("seqlens_q", t.seqlens_q), f("seqlens_k", t.seqlens_k), f("block_table", t.block_table);
}

using Tensors = TensorSet<TensorView>;

TensorSet<TensorInfo> info(const Tensors& tensors);

/// The tensors that a direction writes; every other one is only read.
template <class Set, class F>
void for_each_written(Direction direction, Set& t, F&& f) {
  if (direction == Direction::kForward) {
    f("out", t.out), f("softmax_lse", t.softmax_lse);
  } else {
    f("dq", t.dq), f("dk", t.dk), f("dv", t.dv), f("dbias", t.dbias), f("dsink", t.dsink);
  }
}

struct Problem {
  Direction direction = Direction::kForward;
  Device device{};             // where the tensors lie; kAuto is resolved to kCpu
  DType dtype = DType::kFp32;  // of q, k, v, out and their gradients
  std::int64_t batch = 0;      // sequences
  std::int64_t heads_q = 0;
  std::int64_t heads_kv = 0;      // divides heads_q
  std::int64_t head_dim = 0;      // D
  std::int64_t head_dim_v = 0;    // Dv
  std::int64_t max_seqlen_q = 0;  // Sq; packed: an upper bound (total_q)
  std::int64_t max_seqlen_k = 0;  // Sk; packed: total_k; paged: max_pages * page_size
  std::int64_t page_size = 0;     // 0: not paged

  double scale = 0.0;    // resolved
  double softcap = 0.0;  // 0: off
  double dropout = 0.0;  // 0: off
  std::uint64_t seed = 0, offset = 0;
  bool deterministic = false;
  // Visible keys: i + off - window_left <= j <= i + off + window_right; causal is window_right = min(., 0).
  // A side that hides nothing at these lengths is -1, so that one computation has one description.
  std::int64_t window_left = -1;  // -1: unlimited
  std::int64_t window_right = -1;

  TensorSet<TensorInfo> tensors;

  std::int64_t group() const { return heads_kv == 0 ? 1 : heads_q / heads_kv; }  // query heads of one key/value head
  bool packed_q() const { return tensors.cu_seqlens_q.given(); }
  bool packed_k() const { return tensors.cu_seqlens_k.given(); }
  bool paged() const { return page_size > 0; }
  bool operator==(const Problem&) const = default;
};

/// Checks shapes, types, strides, devices, pointers and option values, and writes the description. Reads no tensor data.
Status make_problem(const ForwardTensors& tensors, const Options& options, Problem* problem);
Status make_problem(const BackwardTensors& tensors, const Options& options, Problem* problem);

/// The call's views, gathered.
Tensors gather(const ForwardTensors& tensors, const Options& options);
Tensors gather(const BackwardTensors& tensors, const Options& options);

/// Checks what make_problem() checks of the views alone: null and misaligned data, mixed devices, written tensors
/// that overlap themselves or others. For a call with the pointers changed.
Status check_views(Direction direction, const Tensors& tensors);

/// Checks the values of the index tensors: cu_seqlens monotone and inside the tensors, lengths inside
/// their sequences and tables, block_table entries that a length reaches inside the pool. On CUDA they are trusted.
Status check_indices(const Problem& problem, const Tensors& tensors);

/// Element i (first dimension) or (i, j) of an int32 or int64 tensor.
std::int64_t index_at(const TensorView& view, std::int64_t i, std::int64_t j = 0);

/// One sequence: where its rows begin (in packed tensors), and how many there are.
struct Sequence {
  std::int64_t q_begin = 0, k_begin = 0;  // row offset inside the packed tensor; 0 where there is a batch dimension
  std::int64_t seqlen_q = 0, seqlen_k = 0;
};
Sequence sequence(const Problem& problem, const Tensors& tensors, std::int64_t b);

/// Readable, one fact a line; and a hash that fits operator==.
std::string to_string(const Problem& problem);
std::size_t hash_value(const Problem& problem);

}  // namespace splitq
