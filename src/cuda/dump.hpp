// For development: what was compiled, from what, and into what, as files.
#pragma once

#include <string>
#include <vector>

#include "cuda/kernel_spec.hpp"
#include "cuda/sources.hpp"
#include "problem/status.hpp"

namespace splitq::cuda {

struct Dump {
  std::string key, log, ptx, image;
};

/// FOLDER/kernels/...: the sources. FOLDER/DIGEST.{cu,log,ptx,cubin}: of the kernel; what is empty is left out.
Status write_dump(const std::string& folder, const std::vector<Source>& sources, const KernelSpec& spec,
                  const Dump& dump);

}  // namespace splitq::cuda
