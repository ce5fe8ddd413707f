// Which kernel, for what: all that a compiled kernel depends on beside the sources, and how a block of it is launched.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <string>

#include "gpu/kernel.hpp"

namespace splitq::cuda {

struct KernelSpec {
  std::string header;            // "sm80/forward.hpp": a file of kernels/
  std::string entry;             // a name expression: "splitq::sm80::forward<splitq::sm80::Config{.head_dim = 128}>"
  std::string architecture;      // "sm_90a": machine code; "compute_75": PTX, which the driver compiles
  int threads = 0;               // of a block
  std::size_t shared_bytes = 0;  // dynamic shared memory of a block

  auto operator<=>(const KernelSpec&) const = default;
};

KernelSpec kernel_spec(const gpu::Kernel& kernel, const std::string& architecture);

std::string to_string(const KernelSpec& spec);

}  // namespace splitq::cuda

template <>
struct std::hash<splitq::cuda::KernelSpec> {
  std::size_t operator()(const splitq::cuda::KernelSpec& spec) const noexcept;
};
