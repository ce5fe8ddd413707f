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

#include "general/forward.hpp"
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
  static constexpr int kKeyColumns = C.tile_n / 8;            // fragments of S in a row tile
  static constexpr int kOutColumns = C.head_dim_v / 8;        // fragments of O
  static constexpr bool kWide = C.element == Element::kBf16;  // scores may overflow fp32
  static constexpr bool kPoisons = kWide && (C.transformed() || C.mask);
  static constexpr LogitSteps kSteps{C.transformed(), C.softcap, C.bias, C.alibi, C.mask, C.transformed(), kPoisons};
  using Type = HalfType<C.element>;
  using QTile = SharedTile<C.tile_m, C.head_dim, panel_columns(C.head_dim)>;
  using KTile = SharedTile<C.tile_n, C.head_dim, panel_columns(C.head_dim)>;
  using VTile = SharedTile<C.tile_n, C.head_dim_v, panel_columns(C.head_dim_v)>;
  using OutTile = SharedTile<C.tile_m, C.head_dim_v, panel_columns(C.head_dim_v)>;

  const ForwardParams& p;
  Rows<C.indexed, C.banded> rows;
  QTile q_tile;
  KTile k_tile;
  VTile v_tile;
  RowCopier<C.threads(), C.tile_n, C.head_dim, panel_columns(C.head_dim)> k_copier;
  RowCopier<C.threads(), C.tile_n, C.head_dim_v, panel_columns(C.head_dim_v)> v_copier;
  float s[kTiles][kKeyColumns][4];
  float out[kTiles][kOutColumns][4];
  SoftmaxState<kTiles> state;

  SPLITQ_DEVICE explicit Forward(const ForwardParams& params) : p(params), rows(params) {}

  SPLITQ_DEVICE int row_number(int m, int h) const {
    const int lane = static_cast<int>(thread_index() % kWarpSize);
    const int warp = static_cast<int>(thread_index() / kWarpSize);
    return rows.first_row + (warp * kTiles + m) * 16 + lane / 4 + 8 * h;
  }

  /// Half h of this thread's rows in row tile m. Made where it is needed: kept, it would take registers from the accumulators.
  SPLITQ_DEVICE QueryRow row_at(int m, int h) const { return rows.row(row_number(m, h)); }

  SPLITQ_DEVICE void copy_q() {
    copy_rows<C.threads(), C.padded, C.aligned>(q_tile, p.head_dim, [&](int r) -> const u16* {
      const int row = rows.first_row + r;
      return row < rows.count() ? static_cast<const u16*>(p.q) + rows.offset(p.q_stride, row) : nullptr;
    });
  }
  /// First row of a tile of keys or values.
  SPLITQ_DEVICE const u16* key_rows(const void* base, const TensorStrides& stride, int j0) const {
    return static_cast<const u16*>(base) + rows.sequence * stride.batch + (rows.k_begin + j0) * stride.row +
           rows.kv_head * stride.head;
  }
  /// Starts the copy of a tile of K or of V, whose columns are `columns` in the tensor.
  template <class Copier, class Tile>
  SPLITQ_DEVICE void copy_keys(Copier& copier, const Tile& tile, const void* base, const TensorStrides& stride,
                               int columns, int j0, u32 stage) {
    const int keys = rows.seqlen_k - j0;
    if constexpr (C.aligned) {
      copier.template copy<C.padded>(keys, columns, stage);
      copier.move(-C.tile_n);
    } else {
      const u16* first = key_rows(base, stride, j0);
      copy_rows<C.threads(), C.padded, false>(Tile{tile.base + stage}, columns, [&](int r) -> const u16* {
        return r < keys ? first + r * stride.row : nullptr;
      });
    }
  }
  SPLITQ_DEVICE void copy_k(int j0, u32 stage) { copy_keys(k_copier, k_tile, p.k, p.k_stride, p.head_dim, j0, stage); }
  SPLITQ_DEVICE void copy_v(int j0, u32 stage) {
    copy_keys(v_copier, v_tile, p.v, p.v_stride, p.head_dim_v, j0, stage);
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

  /// The one division, the sink and the log-sum-exp. True if a result of this thread is in doubt: it is not finite, as where a
  /// key that is hidden has NaN in V (0 * NaN); or all scores of a row overflowed to -inf.
  SPLITQ_DEVICE bool finish() {
    float zero = 0.0f;  // NaN once a result is not finite
    bool lost = false;
    const float logit = C.transformed() ? 1.0f : p.scale;  // of one score
    const bool writes_lse = p.softmax_lse != nullptr && thread_index() % kQuad == 0;
    SPLITQ_UNROLL
    for (int m = 0; m < kTiles; ++m) {
      SPLITQ_UNROLL
      for (int h = 0; h < 2; ++h) {
        const QueryRow row = row_at(m, h);
        const float highest = state.max[m][h];
        const float sum = lanes_sum<kQuad>(state.sum[m][h]);
        const float share = sum == 0.0f ? 0.0f : ex2_approx_ftz(left_out(highest, p.unit, state.large));
        const float sink =
            p.sink != nullptr && row.query >= 0 ? ld_global(p.sink + row.head * p.sink_stride) : kMinusInfinity;
        // From here on in natural logits: softmax_lse is rounded as few times as can be.
        RowEnd end = end_row(sum * share, share, highest == kMinusInfinity ? 0.0f : highest * logit, sink);
        if constexpr (C.dropout) end.factor *= p.dropout_factor;
        if constexpr (kWide && !kPoisons) lost = lost || (sum == 0.0f && row.begin < row.end);
        const bool unused = C.indexed && row.query < 0;
        if (unused) end.softmax_lse = kMinusInfinity;
        SPLITQ_UNROLL
        for (int d = 0; d < kOutColumns; ++d) {
          SPLITQ_UNROLL
          for (int i = 2 * h; i < 2 * h + 2; ++i) {
            out[m][d][i] = unused ? 0.0f : out[m][d][i] * end.factor;
            zero = fma_rn(out[m][d][i], 0.0f, zero);
          }
        }
        const int number = row_number(m, h);
        if (writes_lse && number < rows.written()) {
          st_global(p.softmax_lse + rows.offset(p.lse_stride, number), end.softmax_lse);
        }
      }
    }
    return zero != 0.0f || lost;
  }

  /// The rows of the tile again, by code that never multiplies what is hidden and adds up in fp64 where it must.
  SPLITQ_DEVICE void compute_again() {
    using Careful = general::Forward<careful(C)>;
    Rows<true, true> tile(p);  // found again: kept, it would take registers from the loop
    tile.place(block_index_x(), C.tile_m, C.pack_group);
    Careful careful(p, tile, thread_index_here());
    SPLITQ_NO_UNROLL
    for (int row = 0; row < C.tile_m; row += Careful::C.tile_m()) {
      SPLITQ_NO_UNROLL
      for (int column = 0; column < p.head_dim_v; column += Careful::C.block_columns()) {
        careful.compute(tile.first_row + row, column);
      }
    }
  }

  /// Through shared memory, so that rows are written 16 bytes at a time.
  SPLITQ_DEVICE void write_out() {
    const OutTile tile{shared_base()};
    const int thread = static_cast<int>(thread_index_here());
    const int lane = thread % static_cast<int>(kWarpSize);
    const int warp_row = thread / static_cast<int>(kWarpSize) * kTiles * 16;
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
    for (int i = thread; i < C.tile_m * kChunks; i += C.threads()) {
      const int row = rows.first_row + i / kChunks;
      const int column = i % kChunks * kChunk;
      if (row >= rows.written() || (C.padded && column >= p.head_dim_v)) continue;
      const V4 chunk = ld_shared_v4(tile.address(i / kChunks, column));
      u16* to = static_cast<u16*>(p.out) + rows.offset(p.out_stride, row) + column;
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
    if (!rows.place(block_index_x(), C.tile_m, C.pack_group)) return;
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

    const int first_row = rows.first_row;
    const int last_row = (first_row + C.tile_m < rows.count() ? first_row + C.tile_m : rows.count()) - 1;
    const int first_query = rows.query_of(first_row), last_query = rows.query_of(last_row);
    const int begin = rows.visible_begin(first_query) / C.tile_n * C.tile_n;
    const int end = first_row < rows.count() ? rows.visible_end(last_query) : 0;
    const int column = static_cast<int>(thread_index() % 4) * 2;

    const auto own_row = [&](int m, int h) { return row_at(m, h); };

    // Keys that all rows of the tile see: a tile of keys inside them needs no mask.
    const int all_begin = rows.visible_begin(last_query);
    const int all_end = rows.visible_end(first_query);
    const int tiles = end > begin ? (end - begin + C.tile_n - 1) / C.tile_n : 0;
    int j0 = begin + (tiles - 1) * C.tile_n;

    copy_q();
    if constexpr (C.aligned) {
      k_copier.open(k_tile, key_rows(p.k, p.k_stride, j0), p.k_stride.row);
      v_copier.open(v_tile, key_rows(p.v, p.v_stride, j0), p.v_stride.row);
    }
    const auto logits = [&] {
      const auto convert = [&](bool some_hidden) {
        to_logits<C.element>(p, kSteps, rows.sequence, own_row, rows.off, j0 + column, some_hidden, s);
      };
      // Two copies of the code: what the inner tiles need not know takes no registers there.
      if (j0 + C.tile_n > all_end || j0 < all_begin) {
        convert(true);
      } else if constexpr (C.transformed() || C.mask) {
        convert(false);
      }
    };
    const auto weights = [&] {
      softmax();
      if constexpr (C.dropout) drop(p, rows.sequence, own_row, j0 + column, s);
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
    if (bar_red_or(finish())) {  // from here on Q, K and V have been read
      compute_again();
    } else {
      write_out();
    }
  }
};

template <Config kConfig>
SPLITQ_KERNEL(kConfig.threads(), kConfig.min_blocks)
void forward(const ForwardParams params) {
  Forward<kConfig>(params).run();
}

}  // namespace splitq::sm80
