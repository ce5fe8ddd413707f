// The forward of every problem: fp32, any head size, any stride, pages; NaN, infinities and scores beyond fp32 wherever they
// are. FlashAttention-2's loop without matrix instructions.
//
//   for each 32 keys:
//     S = Q Kᵀ           a lane is a key, a warp has a few rows; 64 elements of D at a time in shared memory
//     online softmax     across the lanes
//     O += P V           a lane is a column of V, 32 a step; P through shared memory
//   O / row sum, once
//
// A block has 32 * columns columns of V; where V has more, other blocks compute the same S again.
#pragma once

#include "general/config.hpp"
#include "parts/element.hpp"
#include "parts/logits.hpp"
#include "parts/rows.hpp"
#include "parts/softmax.hpp"
#include "shared/forward_params.hpp"

namespace splitq::general {

using namespace splitq::parts;

/// The weight of a hidden key. It adds nothing, as a weight too small for fp32 does, but such a key is seen: NaN in its row
/// of V must show.
inline constexpr float kHidden = -0.0f;

/// Of a row, in shared memory: the largest logit, the sum of exponentials against it, and what the last tile has scaled them by.
enum Statistic { kTop, kSum, kFactor };

template <Config kConfig>
struct Forward {
  static constexpr Config C = kConfig;
  static constexpr SmemLayout kSmem = smem_layout(C);
  static constexpr int kRows = C.warp_rows;

  const ForwardParams& p;
  const Rows<true, true>& rows;
  const int thread;
  int first_row;     // of this block, at the moment
  int first_column;  // of v
  float out[kRows][C.columns];

  SPLITQ_DEVICE Forward(const ForwardParams& params, const Rows<true, true>& block_rows, u32 own_thread)
      : p(params), rows(block_rows), thread(static_cast<int>(own_thread)) {}

  SPLITQ_DEVICE int lane() const { return thread % static_cast<int>(kWarpSize); }
  SPLITQ_DEVICE int warp() const { return thread / static_cast<int>(kWarpSize); }
  SPLITQ_DEVICE int row_number(int r) const { return first_row + warp() * kRows + r; }
  SPLITQ_DEVICE u32 weight_address(int r, int key) const {
    return shared_base() + kSmem.weights + static_cast<u32>((warp() * kRows + r) * kWeightRowBytes + key * 4);
  }
  SPLITQ_DEVICE u32 statistic_address(int r, Statistic which) const {
    return shared_base() + kSmem.statistics + static_cast<u32>((warp() * kRows + r) * kStatisticsBytes + which * 4);
  }

  /// Where the keys of a tile are: found once, read by all.
  SPLITQ_DEVICE void place_keys(int j0, int keys) const {
    const int own = thread;
    if (own >= keys) return;
    i64 page = rows.sequence, row = rows.k_begin + j0 + own;
    if (p.page_size > 0) {
      IndexArray pages = p.block_table;
      const i64 first = rows.sequence * p.block_table_sequence_stride;
      pages.data = pages.wide != 0 ? static_cast<const void*>(static_cast<const i64*>(pages.data) + first)
                                   : static_cast<const void*>(static_cast<const int*>(pages.data) + first);
      page = index(pages, (j0 + own) / p.page_size);
      row = (j0 + own) % p.page_size;
    }
    const u32 at = shared_base() + kSmem.places + static_cast<u32>(own * kPlaceBytes);
    st_shared_u32(at, static_cast<u32>(page));
    st_shared_u32(at + 4, static_cast<u32>(row));
  }
  /// Element offset of a key of the tile.
  SPLITQ_DEVICE i64 key_offset(const TensorStrides& stride, int key) const {
    const u32 at = shared_base() + kSmem.places + static_cast<u32>(key * kPlaceBytes);
    return ld_shared_u32(at) * stride.batch + ld_shared_u32(at + 4) * stride.row + rows.kv_head * stride.head;
  }

  /// Elements d0 .. d0 + kDepth - 1 of `count` rows to shared memory; what is not there is 0. place_of(r, &offset): the element
  /// offset of row r, if there is such a row.
  template <class PlaceOf>
  SPLITQ_DEVICE void stage(u32 to, int count, int row_bytes, const void* from, i64 column_stride, int d0,
                           const PlaceOf& place_of) const {
    for (int i = thread; i < count * kDepth; i += C.threads()) {
      const int r = i / kDepth, d = i % kDepth;
      i64 offset = 0;
      const bool inside = d0 + d < p.head_dim && place_of(r, offset);
      const float x = inside ? load_element<C.element>(from, offset + (d0 + d) * column_stride) : 0.0f;
      st_shared_f32(to + static_cast<u32>(r * row_bytes + d * 4), x);
    }
  }

  /// S = Q Kᵀ, this lane's key against the rows of its warp.
  SPLITQ_DEVICE void multiply_keys(int keys, float (&s)[kRows]) const {
    const u32 q = shared_base() + kSmem.q, k = shared_base() + kSmem.k;
    const u32 own_q = q + static_cast<u32>(warp() * kRows * kQRowBytes);
    const u32 own_k = k + static_cast<u32>(lane() * kKRowBytes);
    SPLITQ_UNROLL
    for (int r = 0; r < kRows; ++r) s[r] = 0.0f;
    for (int d0 = 0; d0 < p.head_dim; d0 += kDepth) {
      bar_sync();  // places are there; the elements before have been read
      stage(q, C.tile_m(), kQRowBytes, p.q, p.q_stride.column, d0, [&](int r, i64& offset) {
        const bool used = first_row + r < rows.count();
        if (used) offset = rows.offset(p.q_stride, first_row + r);
        return used;
      });
      stage(k, kTileKeys, kKRowBytes, p.k, p.k_stride.column, d0, [&](int key, i64& offset) {
        if (key < keys) offset = key_offset(p.k_stride, key);
        return key < keys;
      });
      bar_sync();
      const int depth = p.head_dim - d0 < kDepth ? p.head_dim - d0 : kDepth;
      for (int d = 0; d < depth; d += 4) {
        const V4 b = ld_shared_v4(own_k + static_cast<u32>(d * 4));
        SPLITQ_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const V4 a = ld_shared_v4(own_q + static_cast<u32>(r * kQRowBytes + d * 4));
          s[r] = fma_rn(as_float(a.x), as_float(b.x), s[r]);
          s[r] = fma_rn(as_float(a.y), as_float(b.y), s[r]);
          s[r] = fma_rn(as_float(a.z), as_float(b.z), s[r]);
          s[r] = fma_rn(as_float(a.w), as_float(b.w), s[r]);
        }
      }
    }
  }

  /// scale q·k in fp64, where fp32 overflowed on the way or a number is not finite.
  SPLITQ_DEVICE float wide_score(int number, int key) const {
    const i64 q = rows.offset(p.q_stride, number), k = key_offset(p.k_stride, key);
    double sum = 0.0;
    for (int d = 0; d < p.head_dim; ++d) {
      sum += static_cast<double>(load_element<C.element>(p.q, q + d * p.q_stride.column)) *
             static_cast<double>(load_element<C.element>(p.k, k + d * p.k_stride.column));
    }
    constexpr double kBound = static_cast<double>(kLargestLogit) * static_cast<double>(kLn2);
    const double x = sum * p.wide_scale;
    const bool is_number = x - x == 0.0;
    return static_cast<float>(x > kBound ? kBound : x < -kBound && is_number ? -kBound : x);
  }

  /// Scores to weights, in shared memory; the rows' statistics follow. One row after another: a loop that stays one.
  SPLITQ_DEVICE void softmax(int j0, const float (&s)[kRows]) {
    const LogitSteps steps{
        false, p.softcap > 0.0f, p.bias != nullptr, p.alibi_slopes != nullptr, p.mask != nullptr, true, false};
    const int key = j0 + lane();
    SPLITQ_UNROLL
    for (int r = 0; r < kRows; ++r) st_shared_f32(weight_address(r, lane()), s[r]);
    SPLITQ_NO_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const int number = row_number(r);
      const LogitRow row = logit_row(p, steps, rows.sequence, rows.row(number));
      const bool in_band = key >= row.row.begin && key < row.row.end;
      float x = ld_shared_f32(weight_address(r, lane())) * p.scale;
      if (in_band && !finite(x)) x = wide_score(number, lane());
      x = logit_of<C.element>(x, p, steps, row, rows.off, key, true);

      const float before = ld_shared_f32(statistic_address(r, kTop));
      const float highest = max(before, lanes_max<kWarpSize>(x));
      const float reference = highest == kMinusInfinity ? 0.0f : highest;  // no key yet
      const float factor = ex2_approx_ftz((before - reference) * kLog2e);
      float weight = x == kMinusInfinity ? kHidden : ex2_approx_ftz((x - reference) * kLog2e);
      const float sum = ld_shared_f32(statistic_address(r, kSum)) * factor + lanes_sum<kWarpSize>(weight);
      if (p.dropout.threshold != 0 && x != kMinusInfinity && !kept(p, rows.sequence, row.row, key)) weight = 0.0f;
      st_shared_f32(weight_address(r, lane()), weight);
      bar_warp_sync();  // all have read `before`
      if (lane() == 0) {
        st_shared_f32(statistic_address(r, kTop), highest);
        st_shared_f32(statistic_address(r, kSum), sum);
        st_shared_f32(statistic_address(r, kFactor), factor);
      }
    }
    bar_warp_sync();
    SPLITQ_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const float factor = ld_shared_f32(statistic_address(r, kFactor));
      SPLITQ_UNROLL
      for (int c = 0; c < C.columns; ++c) out[r][c] *= factor;
    }
  }

  /// O += P V. A lane's columns are 32 apart.
  SPLITQ_DEVICE void multiply_values(int keys) {
    for (int key = 0; key < keys; ++key) {
      const i64 offset = key_offset(p.v_stride, key);
      float weight[kRows];
      SPLITQ_UNROLL
      for (int r = 0; r < kRows; ++r) weight[r] = ld_shared_f32(weight_address(r, key));
      SPLITQ_UNROLL
      for (int c = 0; c < C.columns; ++c) {
        const int column = column_of(c);
        const float v =
            column < p.head_dim_v ? load_element<C.element>(p.v, offset + column * p.v_stride.column) : 0.0f;
        const bool ordinary = finite(v);
        SPLITQ_UNROLL
        for (int r = 0; r < kRows; ++r) {
          if (ordinary || as_u32(weight[r]) != as_u32(kHidden)) out[r][c] = fma_rn(weight[r], v, out[r][c]);
        }
      }
    }
  }
  SPLITQ_DEVICE int column_of(int c) const { return first_column + c * static_cast<int>(kWarpSize) + lane(); }

  SPLITQ_DEVICE void write() const {
    SPLITQ_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const int number = row_number(r);
      if (number >= rows.written()) break;
      const QueryRow row = rows.row(number);
      const float sink =
          p.sink != nullptr && row.query >= 0 ? ld_global(p.sink + row.head * p.sink_stride) : kMinusInfinity;
      const float top = ld_shared_f32(statistic_address(r, kTop));
      const RowEnd end =
          end_row(ld_shared_f32(statistic_address(r, kSum)), 1.0f, top == kMinusInfinity ? 0.0f : top, sink);
      const i64 offset = rows.offset(p.out_stride, number);
      SPLITQ_UNROLL
      for (int c = 0; c < C.columns; ++c) {
        const int column = column_of(c);
        if (column >= p.head_dim_v) continue;
        store_element<C.element>(p.out, offset + column * p.out_stride.column,
                                 out[r][c] * (end.factor * p.dropout_factor));
      }
      if (p.softmax_lse != nullptr && first_column == 0 && lane() == 0) {
        st_global(p.softmax_lse + rows.offset(p.lse_stride, number), end.softmax_lse);
      }
    }
  }

  /// Rows row .. row + tile_m - 1, columns column ... of the output. All threads of the block.
  SPLITQ_DEVICE void compute(int row, int column) {
    first_row = row, first_column = column;
    bar_warp_sync();  // statistics of rows before have been read
    SPLITQ_UNROLL
    for (int r = 0; r < kRows; ++r) {
      SPLITQ_UNROLL
      for (int c = 0; c < C.columns; ++c) out[r][c] = 0.0f;
      if (lane() == 0) {
        st_shared_f32(statistic_address(r, kTop), kMinusInfinity);
        st_shared_f32(statistic_address(r, kSum), 0.0f);
      }
    }
    bar_warp_sync();
    const int last_row = (first_row + C.tile_m() < rows.count() ? first_row + C.tile_m() : rows.count()) - 1;
    const int begin = rows.visible_begin(rows.query_of(first_row));
    const int end = first_row < rows.count() ? rows.visible_end(rows.query_of(last_row)) : 0;
    for (int j0 = begin; j0 < end; j0 += kTileKeys) {
      const int keys = end - j0 < kTileKeys ? end - j0 : kTileKeys;
      float s[kRows];
      bar_sync();  // the tile before has been read
      place_keys(j0, keys);
      multiply_keys(keys, s);
      softmax(j0, s);
      multiply_values(keys);
    }
    write();
  }
};

template <Config kConfig>
SPLITQ_KERNEL(kConfig.threads(), 1)
void forward(const ForwardParams params) {
  const u32 chunks = static_cast<u32>(params.head_dim_v + kConfig.block_columns() - 1) / kConfig.block_columns();
  const u32 chunk = block_index_x() % chunks;
  Rows<true, true> rows(params);
  if (!rows.place(block_index_x() / chunks, kConfig.tile_m(), true)) return;
  Forward<kConfig>(params, rows, thread_index())
      .compute(rows.first_row, static_cast<int>(chunk) * kConfig.block_columns());
}

}  // namespace splitq::general
