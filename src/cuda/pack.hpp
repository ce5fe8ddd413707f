// A pack: kernels compiled ahead of time, in one file, for machines without NVRTC.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cuda/archive.hpp"
#include "problem/status.hpp"

namespace splitq::cuda {

/// The bytes of a pack.
std::string make_pack(const std::vector<ArchiveEntry>& entries);

/// Refuses a pack of which any entry is damaged.
Status read_pack(const std::string& path, std::map<std::string, CompiledKernel>* kernels);

}  // namespace splitq::cuda
