// A compiled kernel as bytes: what a file of the cache holds, and a pack one after another. The bytes carry their own
// digest, so that damage is seen, and the whole text of the key, so that another's entry is never taken for one's own.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/compile.hpp"

namespace splitq::cuda {

struct ArchiveEntry {
  std::string key;
  CompiledKernel kernel;
};

std::string serialize(const ArchiveEntry& entry);

/// Takes one entry off the front of the bytes. Nothing, where they are not whole and undamaged.
std::optional<ArchiveEntry> take_entry(std::string_view* bytes);

}  // namespace splitq::cuda
