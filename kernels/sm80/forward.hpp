// FlashAttention-2's forward (Dao 2023, algorithm 1) with mma.sync: one block per tile of queries, warps split the queries.
//
//   for each key tile, last to first:
//     S = Q Kᵀ                      while V of this tile is on its way
//     logits, online softmax        while K of the next tile is on its way
//     O += P V                      P straight from the accumulators of S
//   O / row sum, once
//
// The three changes against FlashAttention-1: O stays unnormalised, blocks are tiles of queries, no warp shares a row with another.
#pragma once

#include "parts/logits.hpp"
#include "parts/softmax.hpp"
#include "parts/tile.hpp"
#include "shared/forward_params.hpp"
#include "sm80/config.hpp"

namespace splitq::sm80 {

using namespace splitq::parts;

template <Config kConfig>
struct Forward {
  static constexpr Config C = kConfig;
  static constexpr int kTiles = C.row_tiles();
  static constexpr int kKeyColumns = C.tile_n / 8;      // fragments of S in a row tile
  static constexpr int kOutColumns = C.head_dim_v / 8;  // fragments of O
  static constexpr bool kFp16 = C.element == Element::kFp16;
  using Type = Select<kFp16, Fp16, Bf16>;
  using QTile = SharedTile<C.tile_m, C.head_dim, panel_columns(C.head_dim)>;
  using KTile = SharedTile<C.tile_n, C.head_dim, panel_columns(C.head_dim)>;
  using VTile = SharedTile<C.tile_n, C.head_dim_v, panel_columns(C.head_dim_v)>;
  using OutTile = SharedTile<C.tile_m, C.head_dim_v, panel_columns(C.head_dim_v)>;

  const ForwardParams& p;
  // The tile of this block.
  int sequence, head, first_row;  // head: of the queries, or of the keys where the group is packed
  int seqlen_q, seqlen_k, off;
  int own_q;                     // rows of out that are this sequence's; those past seqlen_q become 0
  i64 q_begin = 0, k_begin = 0;  // rows of a packed tensor before this sequence
  QTile q_tile;
  KTile k_tile;
  VTile v_tile;
  RowCopier<C.threads(), C.tile_n, C.head_dim, panel_columns(C.head_dim)> k_copier;
  RowCopier<C.threads(), C.tile_n, C.head_dim_v, panel_columns(C.head_dim_v)> v_copier;
  float s[kTiles][kKeyColumns][4];
  float out[kTiles][kOutColumns][4];
  SoftmaxState<kTiles> state;

  SPLITQ_DEVICE explicit Forward(const ForwardParams& params) : p(params) {}

  SPLITQ_DEVICE static i64 index(const IndexArray& a, int i) {
    return a.wide != 0 ? ld_global(static_cast<const i64*>(a.data) + i)
                       : ld_global(static_cast<const int*>(a.data) + i);
  }

  SPLITQ_DEVICE int group() const { return C.pack_group ? p.group : 1; }
  SPLITQ_DEVICE int kv_head() const { return C.pack_group ? head : head / p.group; }
  SPLITQ_DEVICE int row_count() const { return seqlen_q * group(); }
  SPLITQ_DEVICE int written_rows() const { return C.indexed ? own_q * group() : row_count(); }
  /// Query and head of a row of the sequence.
  SPLITQ_DEVICE int query_of(int row) const { return C.pack_group ? row / p.group : row; }
  SPLITQ_DEVICE int head_of(int row) const { return C.pack_group ? head * p.group + row % p.group : head; }

  /// Which tile this block computes; false if it has no rows. Under a causal mask the last rows, which see most, come first.
  SPLITQ_DEVICE bool place() {
    const int heads = C.pack_group ? p.heads_kv : p.heads_q;
    const int longest = static_cast<int>(p.seqlen_q) * group();
    const int tiles = (longest + C.tile_m - 1) / C.tile_m;
    const u32 block = block_index_x();
    first_row = (tiles - 1 - static_cast<int>(block % static_cast<u32>(tiles))) * C.tile_m;
    head = static_cast<int>(block / static_cast<u32>(tiles) % static_cast<u32>(heads));
    sequence = static_cast<int>(block / static_cast<u32>(tiles) / static_cast<u32>(heads));
    seqlen_q = static_cast<int>(p.seqlen_q);
    seqlen_k = static_cast<int>(p.seqlen_k);
    own_q = seqlen_q;
    if constexpr (C.indexed) {
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
    return first_row < written_rows();
  }

  /// Keys that query i sees: [begin, end).
  SPLITQ_DEVICE int visible_begin(int i) const {
    const i64 begin = C.banded && p.window_left >= 0 ? i + static_cast<i64>(off) - p.window_left : 0;
    return begin < 0 ? 0 : begin > seqlen_k ? seqlen_k : static_cast<int>(begin);
  }
  SPLITQ_DEVICE int visible_end(int i) const {
    const i64 end = C.banded && p.window_right >= 0 ? i + static_cast<i64>(off) + p.window_right + 1 : seqlen_k;
    return end < 0 ? 0 : end > seqlen_k ? seqlen_k : static_cast<int>(end);
  }

  SPLITQ_DEVICE int row_number(int m, int h) const {
    const int lane = static_cast<int>(thread_index() % kWarpSize);
    const int warp = static_cast<int>(thread_index() / kWarpSize);
    return first_row + (warp * kTiles + m) * 16 + lane / 4 + 8 * h;
  }

  /// Half h of this thread's rows in row tile m. Made where it is needed: kept, it would take registers from the accumulators.
  SPLITQ_DEVICE QueryRow row_at(int m, int h) const {
    const int row = row_number(m, h);
    const bool used = row < row_count();
    QueryRow r{};
    r.query = used ? query_of(row) : -1;
    r.head = head_of(row);
    r.begin = used ? visible_begin(r.query) : 0;
    r.end = used ? visible_end(r.query) : 0;
    if constexpr (C.alibi) {
      r.slope =
          used ? ld_global(p.alibi_slopes + sequence * p.alibi_batch_stride + r.head * p.alibi_head_stride) : 0.0f;
    }
    return r;
  }

  SPLITQ_DEVICE void copy_q() {
    const u16* data = static_cast<const u16*>(p.q) + sequence * p.q_stride.batch + q_begin * p.q_stride.row;
    copy_rows<C.threads(), C.padded, C.aligned>(q_tile, p.head_dim, [&](int r) -> const u16* {
      const int row = first_row + r;
      if (row >= row_count()) return nullptr;
      return data + query_of(row) * p.q_stride.row + head_of(row) * p.q_stride.head;
    });
  }
  /// First row of a tile of keys or values.
  SPLITQ_DEVICE const u16* key_rows(const void* base, const TensorStrides& stride, int j0) const {
    return static_cast<const u16*>(base) + sequence * stride.batch + (k_begin + j0) * stride.row +
           kv_head() * stride.head;
  }
  SPLITQ_DEVICE void copy_k(int j0, u32 stage) {
    if constexpr (C.aligned) {
      k_copier.template copy<C.padded>(seqlen_k - j0, p.head_dim, stage);
      k_copier.move(-C.tile_n);
    } else {
      copy_unaligned(KTile{k_tile.base + stage}, key_rows(p.k, p.k_stride, j0), p.k_stride.row, seqlen_k - j0,
                     p.head_dim);
    }
  }
  SPLITQ_DEVICE void copy_v(int j0, u32 stage) {
    if constexpr (C.aligned) {
      v_copier.template copy<C.padded>(seqlen_k - j0, p.head_dim_v, stage);
      v_copier.move(-C.tile_n);
    } else {
      copy_unaligned(VTile{v_tile.base + stage}, key_rows(p.v, p.v_stride, j0), p.v_stride.row, seqlen_k - j0,
                     p.head_dim_v);
    }
  }
  template <class Tile>
  SPLITQ_DEVICE static void copy_unaligned(const Tile& tile, const u16* first, i64 stride, int rows, int columns) {
    copy_rows<C.threads(), C.padded, false>(
        tile, columns, [&](int r) -> const u16* { return r < rows ? first + r * stride : nullptr; });
  }

  /// S = Q Kᵀ
  SPLITQ_DEVICE void multiply_keys(const KTile& k) {
    const int warp_row = static_cast<int>(thread_index() / kWarpSize) * kTiles * 16;
    SPLITQ_UNROLL
    for (int m = 0; m < kTiles; ++m) {
      SPLITQ_UNROLL
      for (int n = 0; n < kKeyColumns; ++n) s[m][n][0] = s[m][n][1] = s[m][n][2] = s[m][n][3] = 0.0f;
    }
    SPLITQ_UNROLL
    for (int d = 0; d < C.head_dim; d += 16) {
      u32 a[kTiles][4];
      SPLITQ_UNROLL
      for (int m = 0; m < kTiles; ++m) load_a(a[m], q_tile, warp_row + m * 16, d);
      SPLITQ_UNROLL
      for (int n = 0; n < kKeyColumns; n += 2) {
        u32 b[2][2];
        load_b_of_rows(b, k, n * 8, d);
        SPLITQ_UNROLL
        for (int m = 0; m < kTiles; ++m) {
          mma_m16n8k16<Type>(s[m][n], a[m], b[0]);
          mma_m16n8k16<Type>(s[m][n + 1], a[m], b[1]);
        }
      }
    }
  }

  /// O += P V. Accumulators of S are, packed, the A operand of the next product.
  SPLITQ_DEVICE void multiply_values(const VTile& v) {
    SPLITQ_UNROLL
    for (int n = 0; n < kKeyColumns; n += 2) {
      u32 a[kTiles][4];
      SPLITQ_UNROLL
      for (int m = 0; m < kTiles; ++m) {
        a[m][0] = pack<Type>(s[m][n][0], s[m][n][1]);
        a[m][1] = pack<Type>(s[m][n][2], s[m][n][3]);
        a[m][2] = pack<Type>(s[m][n + 1][0], s[m][n + 1][1]);
        a[m][3] = pack<Type>(s[m][n + 1][2], s[m][n + 1][3]);
      }
      SPLITQ_UNROLL
      for (int d = 0; d < kOutColumns; d += 2) {
        u32 b[2][2];
        load_b_of_columns(b, v, n * 8, d * 8);
        SPLITQ_UNROLL
        for (int m = 0; m < kTiles; ++m) {
          mma_m16n8k16<Type>(out[m][d], a[m], b[0]);
          mma_m16n8k16<Type>(out[m][d + 1], a[m], b[1]);
        }
      }
    }
  }

  SPLITQ_DEVICE void softmax() {
    constexpr float kGrowth = 8.0f;  // in log2: p stays below 2^8
    const float growth = kGrowth / p.unit;
    float top[kTiles][2];
    own_maxima(s, top);
    if constexpr (C.rescale == Rescale::kConditional) {
      bool grown = false;
      SPLITQ_UNROLL
      for (int m = 0; m < kTiles; ++m) {
        SPLITQ_UNROLL
        for (int h = 0; h < 2; ++h) {
          grown = grown || top[m][h] - state.max[m][h] > growth;
        }
      }
      if (vote_any(grown)) parts::rescale(top, p.unit, state, out);
    } else {
      parts::rescale(top, p.unit, state, out);
    }
    if (state.large) {
      exponentials<true>(s, p.unit, state);
    } else {
      exponentials<false>(s, p.unit, state);
    }
  }

  /// What a row without keys has.
  SPLITQ_DEVICE void clear_row(int m, int h, float& sum) {
    sum = 0.0f;
    SPLITQ_UNROLL
    for (int d = 0; d < kOutColumns; ++d) out[m][d][2 * h] = out[m][d][2 * h + 1] = 0.0f;
  }

  /// The one division, the sink and the log-sum-exp.
  SPLITQ_DEVICE void finish() {
    constexpr float kLog2e = 1.4426950408889634f, kLn2 = 0.69314718055994531f;
    const float logit = C.transformed() ? 1.0f : p.scale;  // of one score
    const bool writes_lse = p.softmax_lse != nullptr && thread_index() % 4 == 0;
    SPLITQ_UNROLL
    for (int m = 0; m < kTiles; ++m) {
      SPLITQ_UNROLL
      for (int h = 0; h < 2; ++h) {
        const QueryRow row = row_at(m, h);
        float sum = quad_sum(state.sum[m][h]);
        // From here on in natural logits: softmax_lse is rounded as few times as can be.
        float reference = state.max[m][h] == kMinusInfinity ? 0.0f : state.max[m][h] * logit;
        float share = sum == 0.0f ? 0.0f : ex2_approx_ftz(left_out(state.max[m][h], p.unit, state.large));
        sum *= share;
        if (p.sink != nullptr && row.query >= 0) {
          const float given = ld_global(p.sink + row.head * p.sink_stride);
          if (given != kMinusInfinity) {
            const float sink = bounded(given, kLargestLogit * kLn2);
            const float higher = sum == 0.0f || sink > reference ? sink : reference;
            const float shift = sum == 0.0f ? 0.0f : ex2_approx_ftz((reference - higher) * kLog2e);
            share *= shift;
            sum = sum * shift + ex2_approx_ftz((sink - higher) * kLog2e);
            reference = higher;
          }
        }
        float inverse = sum == 0.0f ? 0.0f : share / sum;
        if constexpr (C.dropout) inverse *= p.dropout_factor;
        SPLITQ_UNROLL
        for (int d = 0; d < kOutColumns; ++d) out[m][d][2 * h] *= inverse, out[m][d][2 * h + 1] *= inverse;
        if constexpr (C.indexed) {
          if (row.query < 0) clear_row(m, h, sum);
        }
        const int number = row_number(m, h);
        if (writes_lse && number < written_rows()) {
          const i64 at = sequence * p.lse_stride.batch + row.head * p.lse_stride.head +
                         (q_begin + query_of(number)) * p.lse_stride.row;
          st_global(p.softmax_lse + at, sum == 0.0f ? kMinusInfinity : fma_rn(lg2_approx(sum), kLn2, reference));
        }
      }
    }
  }

  /// Through shared memory, so that rows are written 16 bytes at a time.
  SPLITQ_DEVICE void write_out() {
    const OutTile tile{shared_base()};
    const int lane = static_cast<int>(thread_index() % kWarpSize);
    const int warp_row = static_cast<int>(thread_index() / kWarpSize) * kTiles * 16;
    bar_sync();  // Q, K and V have been read
    SPLITQ_UNROLL
    for (int m = 0; m < kTiles; ++m) {
      SPLITQ_UNROLL
      for (int h = 0; h < 2; ++h) {
        SPLITQ_UNROLL
        for (int d = 0; d < kOutColumns; ++d) {
          const u32 at = tile.address(warp_row + m * 16 + lane / 4 + 8 * h, d * 8) + static_cast<u32>(lane % 4 * 4);
          st_shared_u32(at, pack<Type>(out[m][d][2 * h], out[m][d][2 * h + 1]));
        }
      }
    }
    bar_sync();
    constexpr int kChunks = C.head_dim_v / kChunk;
    u16* data = static_cast<u16*>(p.out) + sequence * p.out_stride.batch + q_begin * p.out_stride.row;
    for (int i = static_cast<int>(thread_index()); i < C.tile_m * kChunks; i += C.threads()) {
      const int row = first_row + i / kChunks;
      const int column = i % kChunks * kChunk;
      if (row >= written_rows() || (C.padded && column >= p.head_dim_v)) continue;
      const V4 chunk = ld_shared_v4(tile.address(i / kChunks, column));
      u16* to = data + query_of(row) * p.out_stride.row + head_of(row) * p.out_stride.head + column;
      if constexpr (C.aligned) {
        st_global_v4(to, chunk);
      } else {
        const u32 words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
        for (int e = 0; e < kChunk && column + e < p.head_dim_v; ++e) {
          st_global(to + e, static_cast<u16>(words[e / 2] >> (e % 2 * 16)));
        }
      }
    }
  }

  SPLITQ_DEVICE void run() {
    if (!place()) return;
    constexpr SmemLayout kSmem = smem_layout(C);
    q_tile.base = shared_base() + kSmem.q;
    k_tile.base = shared_base() + kSmem.k;
    v_tile.base = shared_base() + kSmem.v;
    state.reset();
    SPLITQ_UNROLL
    for (int m = 0; m < kTiles; ++m) {
      SPLITQ_UNROLL
      for (int d = 0; d < kOutColumns; ++d) out[m][d][0] = out[m][d][1] = out[m][d][2] = out[m][d][3] = 0.0f;
    }

    const int last_row = (first_row + C.tile_m < row_count() ? first_row + C.tile_m : row_count()) - 1;
    const int first_query = query_of(first_row), last_query = query_of(last_row);
    const int begin = visible_begin(first_query) / C.tile_n * C.tile_n;
    const int end = first_row < row_count() ? visible_end(last_query) : 0;
    const int column = static_cast<int>(thread_index() % 4) * 2;

    const auto own_row = [&](int m, int h) { return row_at(m, h); };

    // Keys that all rows of the tile see: a tile of keys inside them needs no mask.
    const int all_begin = visible_begin(last_query);
    const int all_end = visible_end(first_query);
    const int tiles = end > begin ? (end - begin + C.tile_n - 1) / C.tile_n : 0;
    int j0 = begin + (tiles - 1) * C.tile_n;

    copy_q();
    if constexpr (C.aligned) {
      k_copier.open(k_tile, key_rows(p.k, p.k_stride, j0), p.k_stride.row);
      v_copier.open(v_tile, key_rows(p.v, p.v_stride, j0), p.v_stride.row);
    }
    const auto logits = [&] {
      const bool some_hidden = j0 + C.tile_n > all_end || j0 < all_begin;
      if (some_hidden || C.transformed() || C.mask) {
        to_logits<Config, C, kFp16>(p, sequence, own_row, off, j0 + column, some_hidden, s);
      }
    };
    const auto weights = [&] {
      softmax();
      if constexpr (C.dropout) drop(p, sequence, own_row, j0 + column, s);
    };
    if (tiles > 0) copy_k(j0, 0);
    if (tiles > 0 && C.stages == 2) copy_v(j0, 0);
    cp_async_commit_group();
    u32 stage = 0;
    for (int tile = tiles; tile > 0; --tile, j0 -= C.tile_n) {
      cp_async_wait_group<0>();
      bar_sync();  // K is there (and V with two stages); the tile before has been read
      if constexpr (C.stages == 1) {
        copy_v(j0, 0);
        cp_async_commit_group();
        multiply_keys(k_tile);
        logits();
        cp_async_wait_group<0>();
        bar_sync();  // V is there; K has been read
        if (tile > 1) copy_k(j0 - C.tile_n, 0);
        cp_async_commit_group();
        weights();
        multiply_values(v_tile);
      } else {
        const u32 next = kSmem.stage - stage;
        if (tile > 1) copy_k(j0 - C.tile_n, next);
        if (tile > 1) copy_v(j0 - C.tile_n, next);
        cp_async_commit_group();
        multiply_keys(KTile{k_tile.base + stage});
        logits();
        weights();
        multiply_values(VTile{v_tile.base + stage});
        stage = next;
      }
    }
    cp_async_wait_group<0>();
    finish();
    write_out();
  }
};

template <Config kConfig>
SPLITQ_KERNEL(kConfig.threads(), kConfig.min_blocks)
void forward(const ForwardParams params) {
  Forward<kConfig>(params).run();
}

}  // namespace splitq::sm80
