// The one template parameter of the general forward. Options are parameters at run time: few kernels serve every problem.
#pragma once

#include "shared/element.hpp"

namespace splitq::general {

using splitq::Element;

inline constexpr int kTileKeys = 32;  // a lane each
inline constexpr int kDepth = 64;     // elements of D in shared memory at a time

struct Config {
  Element element = Element::kFp32;
  int warps = 4;
  int warp_rows = 8;  // rows of a warp, all in its registers
  int columns = 4;    // of v, of a lane: a block computes 32 times as many

  constexpr int threads() const { return warps * 32; }
  constexpr int tile_m() const { return warps * warp_rows; }
  constexpr int block_columns() const { return columns * 32; }
};

/// Shared memory: fp32; statistics of each row; for each key of a tile its page and its row there.
struct SmemLayout {
  int q, k, weights, statistics, places;  // byte offsets
  int bytes;
};

inline constexpr int kQRowBytes = kDepth * 4;
inline constexpr int kKRowBytes =
    (kDepth + 4) * 4;  // lanes read 16 bytes of 32 rows: the gap puts 8 of them into all banks
inline constexpr int kWeightRowBytes = kTileKeys * 4;
inline constexpr int kStatisticsBytes = 12;
inline constexpr int kPlaceBytes = 8;

constexpr SmemLayout smem_layout(const Config& c) {
  SmemLayout layout{};
  layout.k = layout.q + c.tile_m() * kQRowBytes;
  layout.weights = layout.k + kTileKeys * kKRowBytes;
  layout.statistics = layout.weights + c.tile_m() * kWeightRowBytes;
  layout.places = layout.statistics + c.tile_m() * kStatisticsBytes;
  layout.bytes = layout.places + kTileKeys * kPlaceBytes;
  return layout;
}

}  // namespace splitq::general
