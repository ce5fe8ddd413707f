#include "cuda/dump.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "cuda/architecture.hpp"
#include "cuda/digest.hpp"

namespace splitq::cuda {
namespace {

namespace fs = std::filesystem;

Status write_file(const fs::path& path, const std::string& text) {
  if (text.empty()) return {};
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? Status{} : Status::invalid(fmt::format("'{}' cannot be written", path.string()));
}

std::string as_comment(const std::string& text) {
  std::string out = "// ";
  for (const char c : text) out += c == '\n' ? "\n// " : std::string(1, c);
  return out + "\n";
}

}  // namespace

Status write_dump(const std::string& folder, const std::vector<Source>& sources, const KernelSpec& spec,
                  const Dump& dump) {
  const fs::path base = fs::path(folder) / digest(dump.key);
  for (const Source& source : sources) SPLITQ_TRY(write_file(fs::path(folder) / "kernels" / source.name, source.text));
  SPLITQ_TRY(write_file(base.string() + ".cu",
                        as_comment(to_string(spec) + "\n" + dump.key) + fmt::format("#include \"{}\"\n", spec.header)));
  SPLITQ_TRY(write_file(base.string() + ".log", dump.log));
  SPLITQ_TRY(write_file(base.string() + ".ptx", dump.ptx));
  return is_virtual(spec.architecture) ? Status{} : write_file(base.string() + ".cubin", dump.image);
}

}  // namespace splitq::cuda
