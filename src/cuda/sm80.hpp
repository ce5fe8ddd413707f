// The sm80 family (mma.sync, kernels/sm80) as specs: how its configurations are named.
#pragma once

#include <string>

#include "cuda/kernel_spec.hpp"
#include "sm80/config.hpp"

namespace splitq::cuda {

/// As C++: what differs from the defaults, field by field.
std::string to_string(const sm80::Config& config);

KernelSpec forward_spec(const sm80::Config& config, const std::string& architecture);

}  // namespace splitq::cuda
