#include "cuda/new_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace splitq::cuda {

NewFile::~NewFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status NewFile::failed(int error) const {
  return Status::invalid(fmt::format("'{}' cannot be written: {}", path_, std::generic_category().message(error)));
}

Status NewFile::open(const std::string& path) {
  path_ = path;
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return Status::invalid(fmt::format("'{}' is not a regular file; name a file to be written", path));
  }
  const std::string temporary = fmt::format("{}.{}.new", path, ::getpid());
  if (!std::ofstream(temporary, std::ios::binary)) return failed(errno);
  temporary_ = temporary;
  return {};
}

Status NewFile::publish(std::string_view bytes) {
  std::ofstream file(temporary_, std::ios::binary);
  file << bytes;
  file.close();
  if (!file || std::rename(temporary_.c_str(), path_.c_str()) != 0) return failed(errno);
  temporary_.clear();
  return {};
}

}  // namespace splitq::cuda
