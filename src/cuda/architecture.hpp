// What splitq must know of a GPU architecture before it has seen one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "problem/status.hpp"

namespace splitq::cuda {

/// "compute_75": PTX, which the driver of any newer GPU compiles. "sm_75": machine code.
bool is_virtual(const std::string& architecture);

/// Shared memory that a block can have (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
/// Refuses a name that is no architecture, or none that the kernels know.
Status max_shared_bytes(const std::string& architecture, std::size_t* bytes);

/// 10 * major + minor of an architecture that is known; 0 of another.
int compute_capability(const std::string& architecture);

/// The architectures that `splitq kernels` knows: "sm_75", "sm_80", ...
std::vector<std::string> known_architectures();

/// What to compile for a device of this compute capability (10 * major + minor): its own machine code with all that is
/// special to it, where the compiler knows the architecture, else PTX of the newest one before it. "": there is none.
std::string architecture_for(int compute_capability, const std::vector<int>& supported);

}  // namespace splitq::cuda
