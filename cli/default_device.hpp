// What --device auto means.
#pragma once

#include <string>

#include "splitq/splitq.hpp"

namespace splitq::cli {

/// The first CUDA device, where there is one, else the CPU; and why.
struct Choice {
  Device device{};
  std::string why;
};
Choice default_device();

}  // namespace splitq::cli
