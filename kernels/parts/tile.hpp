// Tiles of 16-bit elements in shared memory: swizzled panels, filled by cp.async, read by ldmatrix.
//
// A tile of R rows and C columns is C / W panels of R rows of W = 64 or 32 columns. Chunks of 16 bytes are permuted within a row
// by an exclusive or with the row's number, so that the eight rows of an 8x8 matrix lie in different banks.
#pragma once

#include "device/matrix.hpp"
#include "device/memory.hpp"
#include "device/thread.hpp"

namespace splitq::parts {

using namespace splitq::device;

inline constexpr int kChunk = 8;  // elements of 16 bytes

/// Where global rows are: element d of row r is data[r * stride + d].
struct GlobalRows {
  const u16* data;
  i64 stride;
};

template <int kRows, int kColumns, int kPanel>
struct SharedTile {
  static constexpr int kRowBytes = kPanel * 2;
  static constexpr int kChunksOfRow = kPanel / kChunk;
  u32 base;

  /// Byte address of the chunk with column `column` (a multiple of 8) of row `row`.
  SPLITQ_DEVICE u32 address(int row, int column) const {
    const int chunk = (column % kPanel) / kChunk;
    const int permuted = kPanel == 64 ? chunk ^ (row & 7) : chunk ^ ((row >> 1) & 3);
    return base + static_cast<u32>((column / kPanel) * kRows * kRowBytes + row * kRowBytes + permuted * 16);
  }
};

/// Starts the copy of kRows rows of `columns` columns; the rest of the tile becomes 0. `row_of(r)` gives a row's address, or
/// null: rows anywhere, at any alignment.
template <int kThreads, bool kPadded, bool kAligned, int kRows, int kColumns, int kPanel, class RowOf>
SPLITQ_DEVICE void copy_rows(const SharedTile<kRows, kColumns, kPanel>& tile, int columns, const RowOf& row_of) {
  constexpr int kChunks = kColumns / kChunk;
  constexpr int kTotal = kRows * kChunks;
  const int thread = static_cast<int>(thread_index());
  SPLITQ_UNROLL
  for (int begin = 0; begin < kTotal; begin += kThreads) {
    const int i = begin + thread;
    if (kTotal % kThreads != 0 && i >= kTotal) break;
    const int row = i / kChunks;
    const int column = i % kChunks * kChunk;
    const u16* from = row_of(row);
    const u32 to = tile.address(row, column);
    if constexpr (kAligned) {
      const bool inside = from != nullptr && (!kPadded || column < columns);
      cp_async_cg_16(to, inside ? from + column : nullptr, inside ? 16 : 0);
    } else {
      u32 words[4];
      SPLITQ_UNROLL
      for (int w = 0; w < 4; ++w) {
        const int d = column + 2 * w;
        const u32 low = from != nullptr && d < columns ? ld_global(from + d) : 0;
        const u32 high = from != nullptr && d + 1 < columns ? ld_global(from + d + 1) : 0;
        words[w] = low | high << 16;
      }
      st_shared_v4(to, V4{words[0], words[1], words[2], words[3]});
    }
  }
}

/// Copies of equally spaced rows, tile after tile, from an address that moves: what a loop over keys needs, without a product or a
/// swizzle in the loop. A thread takes one chunk of every kStep-th row of every panel.
template <int kThreads, int kRows, int kColumns, int kPanel>
struct RowCopier {
  using Tile = SharedTile<kRows, kColumns, kPanel>;
  static constexpr int kStep =
      kThreads / Tile::kChunksOfRow;  // rows of one round, a multiple of 8: the swizzle repeats
  static_assert(kStep % 8 == 0 && kThreads % Tile::kChunksOfRow == 0);

  const u16* from;  // this thread's chunk of the first row
  u32 to;
  i64 stride;

  SPLITQ_DEVICE void open(const Tile& tile, const u16* first_row, i64 row_stride) {
    from = first_row + own_row() * row_stride + own_column();
    to = tile.address(own_row(), own_column());
    stride = row_stride;
  }
  SPLITQ_DEVICE static int own_row() { return static_cast<int>(thread_index()) / Tile::kChunksOfRow; }
  SPLITQ_DEVICE static int own_column() { return static_cast<int>(thread_index()) % Tile::kChunksOfRow * kChunk; }
  SPLITQ_DEVICE void move(i64 rows) { from += rows * stride; }

  /// Rows 0 .. rows - 1 of the tile; the rest becomes 0. `columns`: of the tensor, where the tile is wider.
  /// `offset`: bytes from the tile that open() was given to the one that is filled.
  template <bool kPadded>
  SPLITQ_DEVICE void copy(int rows, int columns, u32 offset) const {
    if (rows >= kRows) {
      copy_checked<kPadded, false>(rows, columns, offset);
    } else {
      copy_checked<kPadded, true>(rows, columns, offset);
    }
  }

 private:
  template <bool kPadded, bool kEdge>
  SPLITQ_DEVICE void copy_checked(int rows, int columns, u32 offset) const {
    const u16* row = from;
    SPLITQ_UNROLL
    for (int begin = 0; begin < kRows; begin += kStep, row += kStep * stride) {
      if (kRows % kStep != 0 && begin + own_row() >= kRows) break;
      SPLITQ_UNROLL
      for (int panel = 0; panel < kColumns / kPanel; ++panel) {
        const bool inside =
            (!kEdge || begin + own_row() < rows) && (!kPadded || panel * kPanel + own_column() < columns);
        cp_async_cg_16(to + offset + static_cast<u32>(panel * kRows + begin) * Tile::kRowBytes,
                       inside ? row + panel * kPanel : nullptr, inside ? 16 : 0);
      }
    }
  }
};

/// A operand of a 16x16 tile whose first element is (row, column).
template <class Tile>
SPLITQ_DEVICE void load_a(u32 (&a)[4], const Tile& tile, int row, int column) {
  const int lane = static_cast<int>(thread_index() % kWarpSize);
  ldmatrix_x4(a, tile.address(row + lane % 16, column + lane / 16 * 8));
}

/// B operands of two neighbouring 16x8 tiles of the transpose: rows of the tile are B's columns (n), its columns B's rows (k).
template <class Tile>
SPLITQ_DEVICE void load_b_of_rows(u32 (&b)[2][2], const Tile& tile, int row, int column) {
  const int lane = static_cast<int>(thread_index() % kWarpSize);
  u32 r[4];
  ldmatrix_x4(r, tile.address(row + lane % 8 + lane / 16 * 8, column + lane / 8 % 2 * 8));
  b[0][0] = r[0], b[0][1] = r[1], b[1][0] = r[2], b[1][1] = r[3];
}

/// B operands of two neighbouring 16x8 tiles: rows of the tile are B's rows (k).
template <class Tile>
SPLITQ_DEVICE void load_b_of_columns(u32 (&b)[2][2], const Tile& tile, int row, int column) {
  const int lane = static_cast<int>(thread_index() % kWarpSize);
  u32 r[4];
  ldmatrix_x4_trans(r, tile.address(row + lane % 16, column + lane / 16 * 8));
  b[0][0] = r[0], b[0][1] = r[1], b[1][0] = r[2], b[1][1] = r[3];
}

}  // namespace splitq::parts
