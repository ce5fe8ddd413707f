// The texts of kernels/: embedded into the library, or read from disk while they are worked on.
#pragma once

#include <string>
#include <vector>

#include "problem/status.hpp"

namespace splitq::cuda {

struct Source {
  std::string name;  // as kernels include it: "device/mma.hpp"
  std::string text;
};

/// In the order of their names. The definition is generated (cmake/embed_kernels.cmake).
const std::vector<Source>& embedded_sources();

/// All *.hpp under the folder, in the order of their names.
Status read_sources(const std::string& folder, std::vector<Source>* sources);

/// Of all names and texts: differs where any of them does.
std::string digest_of(const std::vector<Source>& sources);

}  // namespace splitq::cuda
