// explain --count: a problem computed in the emulator, and what that counted.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor.hpp"

namespace splitq::cli {

/// Real numbers are roughly normal, booleans mostly true.
Tensor random_tensor(const std::string& argument, DType dtype, const std::vector<std::int64_t>& shape, unsigned seed);

/// Of a problem that has a plan for the emulator.
nlohmann::ordered_json count(const ForwardTensors& tensors, const Options& options);

std::string counters_text(const nlohmann::ordered_json& counters);

}  // namespace splitq::cli
