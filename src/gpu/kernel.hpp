// A kernel by name: which source, which instantiation, and how a block of it is launched. NVRTC compiles it for a GPU, the
// host's compiler for the emulator.
#pragma once

#include <cstddef>
#include <string>

#include "general/config.hpp"
#include "sm80/config.hpp"

namespace splitq::gpu {

struct Kernel {
  std::string header;    // "sm80/forward.hpp": a file of kernels/
  std::string entry;     // "splitq::sm80::forward<splitq::sm80::Config{.head_dim = 64}>": a function(ForwardParams)
  unsigned threads = 0;  // of a block
  std::size_t shared_bytes = 0;  // dynamic shared memory of a block
};

Kernel forward_kernel(const sm80::Config& config);
Kernel forward_kernel(const general::Config& config);

/// As C++: what differs from the defaults, field by field.
std::string to_string(const sm80::Config& config);
std::string to_string(const general::Config& config);

}  // namespace splitq::gpu
