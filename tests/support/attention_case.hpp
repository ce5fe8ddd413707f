// One attention call, described: every knob of shape, type, option, memory layout and execution. Tests and
// benchmarks make their inputs from it, print it when something fails, and draw it at random.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "oracle/attention.hpp"
#include "splitq/splitq.hpp"

namespace splitq::testing {

using Lengths = std::vector<std::int64_t>;
using Rng = std::mt19937_64;

/// How a tensor lies in memory. All but the first leave elements of the allocation outside the view.
enum class Layout {
  kContiguous,
  kHeadsFirst,  // (B, H, S, D) in memory
  kGapped,      // gaps after every row, head and sequence: a slice of a larger tensor
  kStrided,     // every third element of the last dimension
  kTransposed,  // the sequence runs fastest
  kReversed,    // every stride negative
};

/// A tensor of shape (B|1, Hq|1, Sq|1, Sk).
enum class Broadcast { kNone, kFull, kOverBatch, kOverHeads, kOverQueries, kOverAll };
enum class Alibi { kNone, kPerHead, kPerBatchAndHead };

struct AttentionCase {
  DType dtype = DType::kFp32;
  std::int64_t batch = 2, heads_q = 2, heads_kv = 2;
  std::int64_t seqlen_q = 33, seqlen_k = 33;
  std::int64_t head_dim = 32;
  std::int64_t head_dim_v = 0;  // 0: head_dim

  // Sequences. Lengths given here replace seqlen_q, seqlen_k and batch.
  Lengths packed_q, packed_k;   // lengths of packed sequences
  Lengths used_q, used_k;       // at most the sequences' own lengths
  std::int64_t page_size = 0;   // > 0: paged, the table is a random permutation of a larger pool
  std::int64_t slack_rows = 0;  // rows of a packed tensor behind its last sequence
  DType index_dtype = DType::kInt32;

  std::optional<double> scale;
  bool causal = false;
  std::int64_t window_left = -1, window_right = -1;
  double softcap = 0.0, dropout = 0.0;
  Broadcast bias = Broadcast::kNone, mask = Broadcast::kNone;
  bool bias_in_dtype = false;  // bias of the tensors' type instead of fp32
  double mask_density = 0.7;   // share of true
  Alibi alibi = Alibi::kNone;
  bool sink = false, dlse = false, backward = true;

  Layout layout_q = Layout::kContiguous, layout_k = Layout::kContiguous, layout_v = Layout::kContiguous;
  Layout layout_out = Layout::kContiguous;   // and dout, softmax_lse
  Layout layout_grad = Layout::kContiguous;  // dq, dk, dv, dbias
  Layout layout_mask = Layout::kContiguous;  // and bias

  bool nan_hidden = false;  // NaN in every key and bias element that no query sees
  Execution execution{};

  std::int64_t dim_v() const { return head_dim_v == 0 ? head_dim : head_dim_v; }
  DType bias_dtype() const { return bias_in_dtype ? dtype : DType::kFp32; }
};

std::string to_string(const AttentionCase& c);

/// Random inputs, as the tensors' types hold them. What the lengths leave unused is NaN.
oracle::Problem make_inputs(const AttentionCase& c, std::uint64_t seed);

/// Rounds everything to the storage types, after a test has changed values.
void round_inputs(const AttentionCase& c, oracle::Problem* problem);

/// Any combination of options, shapes, layouts and executions, small enough for the oracle.
AttentionCase random_case(Rng& rng);

oracle::Format format_of(DType dtype);

template <class T>
T pick(Rng& rng, const std::vector<T>& choices) {
  return choices[std::uniform_int_distribution<std::size_t>(0, choices.size() - 1)(rng)];
}

}  // namespace splitq::testing
