// Tile sizes of the sm80 family: one table for the plan, and for the list of kernels that are checked and packed.
#pragma once

#include <algorithm>
#include <cstddef>

#include "sm80/config.hpp"

namespace splitq::gpu {

/// The configuration with its tiles set for its head sizes; smaller ones where a block has less than `shared_bytes`.
constexpr sm80::Config with_tiles(sm80::Config config, std::size_t shared_bytes) {
  constexpr int kSmallest = 16;
  const int widest = std::max(config.head_dim, config.head_dim_v);
  config.tile_m = widest <= 128 ? 128 : 64;
  config.tile_n = widest <= 64 ? 128 : 64;
  config.stages = widest <= 128 ? 2 : 1;
  const auto fits = [&] { return static_cast<std::size_t>(sm80::smem_layout(config).bytes) <= shared_bytes; };
  if (!fits()) config.stages = 1;
  while (!fits() && config.tile_n > kSmallest) config.tile_n /= 2;
  return config;
}

}  // namespace splitq::gpu
