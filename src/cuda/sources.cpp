#include "cuda/sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cuda/digest.hpp"

namespace splitq::cuda {

namespace fs = std::filesystem;

Status read_sources(const std::string& folder, std::vector<Source>* sources) {
  sources->clear();
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() != ".hpp") continue;
    std::ifstream file(at->path(), std::ios::binary);
    std::string text(std::istreambuf_iterator<char>(file), {});
    if (!file)
      return Status::invalid(fmt::format("SPLITQ_KERNEL_SOURCE_DIR: '{}' cannot be read", at->path().string()));
    sources->push_back({at->path().lexically_relative(folder).generic_string(), std::move(text)});
  }
  if (error) return Status::invalid(fmt::format("SPLITQ_KERNEL_SOURCE_DIR: '{}': {}", folder, error.message()));
  if (sources->empty()) return Status::invalid(fmt::format("SPLITQ_KERNEL_SOURCE_DIR: '{}' holds no *.hpp", folder));
  std::ranges::sort(*sources, {}, &Source::name);
  return {};
}

std::string digest_of(const std::vector<Source>& sources) {
  std::string all;
  for (const Source& source : sources) all += fmt::format("{} {}\n{}", source.name, source.text.size(), source.text);
  return digest(all);
}

}  // namespace splitq::cuda
