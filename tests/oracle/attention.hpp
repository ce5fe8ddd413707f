// Attention as docs/semantics.md defines it, written to be read: every weight is computed, every row is
// its own. The same text runs twice: in double (the oracle), and in float with roundings to the tensors'
// type (the "plain materialised computation" that the accuracy rule measures errors against).
#pragma once

#include <cstdint>
#include <vector>

#include "oracle/array.hpp"
#include "oracle/number.hpp"

namespace oracle {

/// One call. Arrays that are not given are empty. q, dout: (rows, Hq, ·); k, v: (rows, Hkv, ·), where the
/// rows are B x S, those of a packed tensor, or those of all pages.
struct Problem {
  std::int64_t batch = 1, heads_q = 1, heads_kv = 1, head_dim = 1, head_dim_v = 1;
  std::int64_t seqlen_q = 0, seqlen_k = 0;  // of the batched shapes; packed, paged: the largest length

  std::vector<std::int64_t> cu_seqlens_q, cu_seqlens_k, seqlens_q, seqlens_k;
  std::int64_t page_size = 0, max_pages = 0;
  std::vector<std::int64_t> block_table;  // (B, max_pages)

  double scale = 1.0, softcap = 0.0, dropout = 0.0;
  bool causal = false;
  std::int64_t window_left = -1, window_right = -1;
  std::uint64_t seed = 0, offset = 0;

  Array q, k, v;
  Array bias, mask;    // (B|1, Hq|1, Sq|1, Sk); mask: nonzero = visible
  Array alibi_slopes;  // (Hq) or (B, Hq)
  Array sink;          // (Hq)
  Array dout;          // as out
  Array dlse;          // as softmax_lse; not given: 0

  std::int64_t length_q(std::int64_t b) const;
  std::int64_t length_k(std::int64_t b) const;
  std::int64_t row_q(std::int64_t b, std::int64_t i) const;  // row of q, out, dq, dout
  std::int64_t row_k(std::int64_t b, std::int64_t j) const;  // row of k, v, dk, dv
  std::int64_t lse_index(std::int64_t b, std::int64_t h, std::int64_t i) const;
  std::int64_t kv_head(std::int64_t h) const { return h / (heads_q / heads_kv); }

  /// Causality, window and mask: what hides a key whatever its value is.
  bool visible(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const;
  bool keep(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const;
};

struct Results {
  Array out, softmax_lse;          // softmax_lse: (B, Hq, Sq), packed: (Hq, total_q)
  Array dq, dk, dv, dbias, dsink;  // empty where not asked for
};

/// Position in a tensor of shape (B|1, Hq|1, Sq|1, Sk).
std::int64_t broadcast_index(const Array& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j);

/// The truth. Gradients are computed where dout is given.
Results attention(const Problem& problem);

/// What a plain implementation in the tensors' type would get: products summed in fp32; weights, and the
/// gradients of the logits, rounded to `type` before they enter the next product; results rounded. Its backward
/// starts, as every backward does, from `given.out` and `given.softmax_lse`, the stored results of a forward.
Results materialised_attention(const Problem& problem, Format type, Format bias_type, const Results& given);

}  // namespace oracle
