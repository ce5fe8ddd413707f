// Which rows a block computes, of which sequence and heads, and which keys they see.
//
// A row is a query of a head. The heads that share keys may share a tile: rows then run over the heads of each query.
#pragma once

#include "device/memory.hpp"
#include "device/thread.hpp"
#include "shared/forward_params.hpp"

namespace splitq::parts {

using namespace splitq::device;

/// One row: its query, and what it sees of the keys.
struct QueryRow {
  int query;  // -1: none
  int head;
  int begin, end;  // visible keys
};

SPLITQ_DEVICE i64 index(const IndexArray& a, int i) {
  const i64 at = i * a.stride;
  return a.wide != 0 ? ld_global(static_cast<const i64*>(a.data) + at)
                     : ld_global(static_cast<const int*>(a.data) + at);
}

/// `kIndexed`: sequences may be packed or have used lengths. `kBanded`: they may be causal, or have a window.
template <bool kIndexed, bool kBanded>
struct Rows {
  const ForwardParams& p;
  int group = 1;  // heads of a tile
  int first_head, kv_head;
  int sequence, first_row;
  int seqlen_q, seqlen_k, off;
  int own_q;                     // rows of out that are this sequence's; those past seqlen_q become 0
  i64 q_begin = 0, k_begin = 0;  // rows of a packed tensor before this sequence

  SPLITQ_DEVICE explicit Rows(const ForwardParams& params) : p(params) {}

  SPLITQ_DEVICE int count() const { return seqlen_q * group; }
  SPLITQ_DEVICE int written() const { return own_q * group; }
  SPLITQ_DEVICE int query_of(int row) const { return row / group; }
  SPLITQ_DEVICE int head_of(int row) const { return first_head + row % group; }

  /// The tile of `tile_m` rows that a block computes; false if it has no rows. Under a causal mask the last rows, which see
  /// most, come first. `pack_group`: all heads that share keys in one tile.
  SPLITQ_DEVICE bool place(u32 block, int tile_m, bool pack_group) {
    group = pack_group ? p.group : 1;
    const int heads = pack_group ? p.heads_kv : p.heads_q;
    const int longest = static_cast<int>(p.seqlen_q) * group;
    const int tiles = (longest + tile_m - 1) / tile_m;
    first_row = (tiles - 1 - static_cast<int>(block % static_cast<u32>(tiles))) * tile_m;
    const int head = static_cast<int>(block / static_cast<u32>(tiles) % static_cast<u32>(heads));
    first_head = head * group;
    kv_head = pack_group ? head : head / p.group;
    sequence = static_cast<int>(block / static_cast<u32>(tiles) / static_cast<u32>(heads));
    read_lengths();
    return first_row < written();
  }

  SPLITQ_DEVICE void read_lengths() {
    seqlen_q = static_cast<int>(p.seqlen_q);
    seqlen_k = static_cast<int>(p.seqlen_k);
    own_q = seqlen_q;
    if constexpr (kIndexed) {
      if (p.cu_seqlens_q.data != nullptr) {
        q_begin = index(p.cu_seqlens_q, sequence);
        seqlen_q = static_cast<int>(index(p.cu_seqlens_q, sequence + 1) - q_begin);
        // Rows behind the last sequence are as unused as those past a used length.
        own_q = sequence + 1 == p.batch ? static_cast<int>(p.seqlen_q - q_begin) : seqlen_q;
      }
      if (p.cu_seqlens_k.data != nullptr) {
        k_begin = index(p.cu_seqlens_k, sequence);
        seqlen_k = static_cast<int>(index(p.cu_seqlens_k, sequence + 1) - k_begin);
      }
      if (p.seqlens_q.data != nullptr) seqlen_q = static_cast<int>(index(p.seqlens_q, sequence));
      if (p.seqlens_k.data != nullptr) seqlen_k = static_cast<int>(index(p.seqlens_k, sequence));
    }
    off = seqlen_k - seqlen_q;
  }

  /// Keys that query i sees: [begin, end).
  SPLITQ_DEVICE int visible_begin(int i) const {
    const i64 begin = kBanded && p.window_left >= 0 ? i + static_cast<i64>(off) - p.window_left : 0;
    return begin < 0 ? 0 : begin > seqlen_k ? seqlen_k : static_cast<int>(begin);
  }
  SPLITQ_DEVICE int visible_end(int i) const {
    const i64 end = kBanded && p.window_right >= 0 ? i + static_cast<i64>(off) + p.window_right + 1 : seqlen_k;
    return end < 0 ? 0 : end > seqlen_k ? seqlen_k : static_cast<int>(end);
  }

  SPLITQ_DEVICE QueryRow row(int number) const {
    const bool used = number < count();
    QueryRow r{};
    r.query = used ? query_of(number) : -1;
    r.head = head_of(number);
    r.begin = used ? visible_begin(r.query) : 0;
    r.end = used ? visible_end(r.query) : 0;
    return r;
  }

  /// Element offset of a row of q or out, from the tensor's first.
  SPLITQ_DEVICE i64 offset(const TensorStrides& stride, int number) const {
    return sequence * stride.batch + (q_begin + query_of(number)) * stride.row + head_of(number) * stride.head;
  }
};

}  // namespace splitq::parts
