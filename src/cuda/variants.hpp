// Every kernel that a plan can choose on an architecture: what `splitq kernels` checks and `splitq precompile` packs.
#pragma once

#include <string>
#include <vector>

#include "cuda/kernel_spec.hpp"

namespace splitq::cuda {

/// Empty where the architecture is none that is known.
std::vector<KernelSpec> variants(const std::string& architecture);

}  // namespace splitq::cuda
