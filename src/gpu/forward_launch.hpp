// A forward as the GPU kernels take it: which kernel, how many blocks, and its parameters.
// For a GPU and the emulator alike.
#pragma once

#include <cstddef>

#include "gpu/kernel.hpp"
#include "gpu/tiles.hpp"
#include "problem/problem.hpp"
#include "shared/forward_params.hpp"
#include "sm80/config.hpp"

namespace splitq::gpu {

struct ForwardLaunch : Kernel {
  ForwardParams params{};
  std::int64_t blocks = 0;  // 0: nothing to compute, nothing to write
  bool aligned = false;     // the kernel wants rows at multiples of 16 bytes
};

/// The launch, or the reason why no kernel computes this problem.
Status make_forward_launch(const Problem& problem, const Tensors& tensors, const Target& target, ForwardLaunch* launch);

/// The same launch on other memory: tensors of the same shapes and strides. False, and nothing changed, where they are less
/// aligned than the kernel wants: such a call needs a launch of its own.
bool move_to(const Tensors& tensors, ForwardLaunch* launch);

/// The sm80 configuration for a problem that the family computes, at the addresses of these tensors.
sm80::Config choose_config(const Problem& problem, const Tensors& tensors, const Target& target);
/// The general kernel's, for any problem.
general::Config choose_config(const Problem& problem);

/// `transformed`: the configuration's, which decides where the scale is multiplied in; the general kernel's is true.
ForwardParams forward_params(const Problem& problem, const Tensors& tensors, bool transformed);

/// One block for each tile of queries, head and sequence (and, in the general kernel, part of Dv).
std::int64_t forward_blocks(const Problem& problem, const sm80::Config& config);
std::int64_t forward_blocks(const Problem& problem, const general::Config& config);

}  // namespace splitq::gpu
