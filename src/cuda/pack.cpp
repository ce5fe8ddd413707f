#include "cuda/pack.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <system_error>

namespace splitq::cuda {

Status write_pack(const std::string& path, const std::vector<ArchiveEntry>& entries) {
  const std::string temporary = fmt::format("{}.{}.new", path, ::getpid());
  std::ofstream file(temporary, std::ios::binary);
  for (const ArchiveEntry& entry : entries) file << serialize(entry);
  file.close();
  if (file && std::rename(temporary.c_str(), path.c_str()) == 0) return {};
  const std::string reason = std::generic_category().message(errno);
  ::unlink(temporary.c_str());
  return Status::invalid(fmt::format("pack '{}' cannot be written: {}", path, reason));
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
