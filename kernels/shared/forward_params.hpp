// What a forward kernel is given at run time. Strides are in elements; every offset is 64 bits wide.
#pragma once

#include "shared/philox.hpp"

namespace splitq {

struct TensorStrides {
  long long batch, row, head;  // packed tensors: batch is 0; pages: batch is from page to page
  long long column;            // of the last dimension; softmax_lse has none
};

/// A (B|1, Hq|1, Sq|1, Sk) tensor; a broadcast dimension has stride 0.
struct BroadcastStrides {
  long long batch, head, query, key;
};

/// int32 or int64 values.
struct IndexArray {
  const void* data;
  long long stride;
  int wide;  // 1: int64
};

struct ForwardParams {
  const void* q;
  const void* k;
  const void* v;
  void* out;
  float* softmax_lse;  // or null
  TensorStrides q_stride, k_stride, v_stride, out_stride, lse_stride;

  int batch, heads_q, heads_kv, group;
  int head_dim, head_dim_v;             // at most those of the kernel's configuration, which are padded
  long long seqlen_q, seqlen_k;         // of every sequence, unless the arrays below say otherwise
  long long window_left, window_right;  // -1: unlimited

  // A logit in units of log2 is score * unit, unit > 0; where logits are transformed, x = score * scale first, then x * unit.
  float scale, unit;
  double wide_scale;  // where a score is computed again in fp64
  float softcap;
  const float* alibi_slopes;  // or null
  long long alibi_batch_stride, alibi_head_stride;
  const void* bias;  // or null
  BroadcastStrides bias_stride;
  int bias_is_fp32;
  const unsigned char* mask;  // or null
  BroadcastStrides mask_stride;
  const float* sink;  // or null
  long long sink_stride;
  DropoutStream dropout;
  float dropout_factor;  // 1 / (1 - r)

  IndexArray cu_seqlens_q, cu_seqlens_k, seqlens_q, seqlens_k;  // data may be null

  // Key j of a sequence is row j % page_size of page block_table[sequence, j / page_size].
  int page_size;           // 0: no pages
  IndexArray block_table;  // of the pages of a sequence
  long long block_table_sequence_stride;
};

}  // namespace splitq
