// A forward as the GPU kernels take it: which configuration of the sm80 family, how many blocks, and its parameters.
// For a GPU and the emulator alike.
#pragma once

#include <cstddef>

#include "gpu/tiles.hpp"
#include "problem/problem.hpp"
#include "shared/forward_params.hpp"
#include "sm80/config.hpp"

namespace splitq::gpu {

struct ForwardLaunch {
  sm80::Config config{};
  ForwardParams params{};
  std::int64_t blocks = 0;  // 0: nothing to compute, nothing to write
};

/// All three, or the reason why the family does not compute this problem.
Status make_forward_launch(const Problem& problem, const Tensors& tensors, const Target& target, ForwardLaunch* launch);

/// Configuration for a problem that the family computes, at the addresses of these tensors.
sm80::Config choose_config(const Problem& problem, const Tensors& tensors, const Target& target);

/// `transformed`: the configuration's, which decides where the scale is multiplied in.
ForwardParams forward_params(const Problem& problem, const Tensors& tensors, bool transformed);

/// One block for each tile of queries, head and sequence.
std::int64_t forward_blocks(const Problem& problem, const sm80::Config& config);

}  // namespace splitq::gpu
