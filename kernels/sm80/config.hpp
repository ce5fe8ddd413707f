// The one template parameter of the sm80 family's forward: what is known when a kernel is compiled.
#pragma once

#include "general/config.hpp"
#include "shared/element.hpp"

namespace splitq::sm80 {

using splitq::Element;

/// How often the running maximum is brought up to date (docs/performance/sm80.md has what each gains).
enum class Rescale : int {
  kEveryBlock,   // FlashAttention-2: the exact maximum after each block of keys
  kConditional,  // only where it grew by more than 2^8: any reference gives the same quotient
};

struct Config {
  Element element = Element::kBf16;  // not fp32: there is no such instruction
  int head_dim = 128;                // of q and k, a multiple of 32
  int head_dim_v = 128;              // of v and out, a multiple of 32
  int tile_m = 128;                  // rows of a block: 16 * row_tiles * warps
  int tile_n = 64;                   // keys of a tile, a multiple of 16
  int warps = 4;
  int min_blocks = 2;  // per SM, what registers are limited for
  int stages = 1;      // K/V buffers. 2: the next tile is on its way during the whole of this one, one barrier a tile
  Rescale rescale = Rescale::kConditional;
  bool padded = false;      // head_dim or head_dim_v is larger than the tensors'
  bool aligned = true;      // rows of q, k, v begin at multiples of 16 bytes
  bool pack_group = false;  // rows of a tile are queries times the heads of a group
  bool banded = false;      // causal or window
  bool scaled = false;      // scores are scaled one by one: where the scale is no positive, ordinary number
  bool softcap = false;
  bool alibi = false;
  bool bias = false;
  bool mask = false;
  bool dropout = false;
  bool indexed = false;  // packed sequences or used lengths

  constexpr int threads() const { return warps * 32; }
  constexpr int row_tiles() const { return tile_m / (warps * 16); }  // 16-row tiles of one warp
  constexpr bool transformed() const { return scaled || softcap || alibi || bias; }
};

/// Columns of a panel: a tile lies in shared memory as panels of 64 or 32 columns, rows of 128 or 64 bytes.
constexpr int panel_columns(int head_dim) { return head_dim % 64 == 0 ? 64 : 32; }

/// The general kernel by the same threads, for rows that matrix instructions get wrong.
constexpr general::Config careful(const Config& c) {
  return {.element = c.element, .warps = c.warps, .warp_rows = 4, .columns = 4};
}

/// Dynamic shared memory. Host and device take sizes and offsets from here.
struct SmemLayout {
  int q, k, v;  // byte offsets; K and V of the first stage
  int stage;    // bytes from one stage to the next
  int bytes;
};

constexpr SmemLayout smem_layout(const Config& c) {
  const int element_bytes = 2;
  SmemLayout layout{};
  layout.q = 0;
  layout.k = layout.q + c.tile_m * c.head_dim * element_bytes;
  layout.v = layout.k + c.tile_n * c.head_dim * element_bytes;
  layout.stage = c.tile_n * (c.head_dim + c.head_dim_v) * element_bytes;
  layout.bytes = layout.k + c.stages * layout.stage;
  // What comes after the loop lies over everything.
  const int out_bytes = c.tile_m * c.head_dim_v * element_bytes;
  const int careful_bytes = general::smem_layout(careful(c)).bytes;
  if (layout.bytes < out_bytes) layout.bytes = out_bytes;
  if (layout.bytes < careful_bytes) layout.bytes = careful_bytes;
  return layout;
}

}  // namespace splitq::sm80
