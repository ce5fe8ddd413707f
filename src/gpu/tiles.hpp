// Tile sizes of the kernel families: one table for the plan, and for the list of kernels that are checked and packed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "general/config.hpp"
#include "sm80/config.hpp"

namespace splitq::gpu {

/// What a kernel is for, as far as tiles depend on it.
struct Target {
  std::size_t shared_bytes;  // that a block can have
  int compute_capability;    // 10 * major + minor

  // Not explicit: where only the memory is known (the emulator), it stands for the target.
  constexpr Target(std::size_t bytes, int capability = 80) : shared_bytes(bytes), compute_capability(capability) {}
};

/// The configuration with its tiles set for its head sizes and options. The larger a tile, the less is read twice; its
/// accumulators must stay in registers, and options take some of their own: `splitq kernels` tells where that fails.
constexpr sm80::Config with_tiles(sm80::Config config, const Target& target) {
  constexpr int kAmpere = 80, kHopper = 90, kBlackwell = 100, kSmallest = 16;
  const bool blackwell = target.compute_capability >= kBlackwell;  // registers as on Hopper, but code takes more
  const int widest = std::max(config.head_dim, config.head_dim_v);
  const bool plain = !config.transformed() && !config.mask && !config.dropout && !config.indexed && !config.padded &&
                     !config.pack_group && config.aligned && target.compute_capability >= kAmpere;
  if (widest <= 64) {
    config.tile_m = 128, config.tile_n = plain && !blackwell ? 128 : 64, config.stages = 2;
    if (config.mask && target.compute_capability < kHopper) config.tile_n = 32;
  } else if (widest <= 128) {
    config.tile_m = plain ? 128 : 64, config.stages = 2;
    config.tile_n = plain && (blackwell || (widest > 96 && target.compute_capability < kHopper)) ? 32 : 64;
  } else {
    config.tile_m = 64, config.tile_n = config.aligned && !config.mask ? 64 : 32, config.stages = 1;
    if (blackwell && !config.aligned) config.tile_n = kSmallest;
  }
  const auto fits = [&] { return static_cast<std::size_t>(sm80::smem_layout(config).bytes) <= target.shared_bytes; };
  if (!fits()) config.stages = 1;
  while (!fits() && config.tile_n > kSmallest) config.tile_n /= 2;
  return config;
}

/// The general kernel for a type and a head size of v.
constexpr general::Config general_config(Element element, std::int64_t head_dim_v) {
  general::Config config{.element = element};
  // Wide values: as many accumulators, in fewer rows, so that fewer blocks compute the same scores.
  if (head_dim_v > config.block_columns()) config.warp_rows /= 2, config.columns *= 2;
  return config;
}

}  // namespace splitq::gpu
