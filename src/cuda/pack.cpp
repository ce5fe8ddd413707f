#include "cuda/pack.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

namespace splitq::cuda {

std::string make_pack(const std::vector<ArchiveEntry>& entries) {
  std::string bytes;
  for (const ArchiveEntry& entry : entries) bytes += serialize(entry);
  return bytes;
}

Status read_pack(const std::string& path, std::map<std::string, CompiledKernel>* kernels) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status::invalid(fmt::format("pack '{}' cannot be opened", path));
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  kernels->clear();
  for (std::string_view rest = bytes; !rest.empty();) {
    std::optional<ArchiveEntry> entry = take_entry(&rest);
    if (!entry) {
      kernels->clear();
      return Status::invalid(fmt::format("pack '{}' is damaged, or no pack: the entry at byte {} cannot be read", path,
                                         bytes.size() - rest.size()));
    }
    kernels->insert_or_assign(std::move(entry->key), std::move(entry->kernel));
  }
  return {};
}

}  // namespace splitq::cuda
