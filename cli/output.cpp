#include "output.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "npy.hpp"

namespace splitq::cli {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(const std::string& argument, const fs::path& path, const std::string& what) {
  throw Error(fmt::format("{} '{}': {}", argument, path.string(), what));
}

std::string errno_text() { return std::strerror(errno); }

bool write_all(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(fd, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    data += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

/// The permissions that open() would have given; a temporary file begins with none for others.
mode_t default_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

}  // namespace

OutputFiles::~OutputFiles() {
  for (const File& file : files_) {
    std::error_code ignored;
    if (!file.temporary.empty()) fs::remove(file.temporary, ignored);
  }
}

void OutputFiles::announce(const std::string& argument, const std::string& path) {
  if (path.empty()) throw Error(fmt::format("{}: the file name is empty", argument));
  std::error_code error;
  const fs::path target =
      fs::weakly_canonical(fs::absolute(path), error);  // through links, so that a rename keeps them
  if (error) fail(argument, path, error.message());
  const fs::file_status status = fs::status(target, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    fail(argument, path, "exists and is not a regular file; name a file to be written");
  }
  const fs::path folder = target.parent_path();
  if (!fs::is_directory(folder, error)) fail(argument, path, fmt::format("there is no folder '{}'", folder.string()));
  if (::access(folder.c_str(), W_OK) != 0) {
    fail(argument, path, fmt::format("the folder '{}' cannot be written to: {}", folder.string(), errno_text()));
  }
  const auto same = std::ranges::find(files_, target, &File::target);
  if (same != files_.end())
    fail(argument, path, fmt::format("is the file of {} too; each needs its own", same->argument));
  files_.push_back({argument, target});
}

void OutputFiles::write(const std::string& argument, Tensor tensor) {
  File& file = *std::ranges::find(files_, argument, &File::argument);
  const npy::Type type = file_type(tensor.view.dtype);
  const std::string header = npy::make_header(type, std::span(tensor.view.shape).first(tensor.view.rank));
  const Buffer data = to_file(std::move(tensor));

  std::string name = file.target.string() + ".XXXXXX";
  const int fd = ::mkstemp(name.data());
  if (fd < 0) fail(argument, file.target, fmt::format("cannot be created: {}", errno_text()));
  file.temporary = name;
  const bool written = write_all(fd, header.data(), header.size()) &&
                       write_all(fd, reinterpret_cast<const char*>(data.data()), data.size()) &&
                       ::fchmod(fd, default_mode()) == 0;
  const std::string reason = written ? "" : errno_text();
  const bool closed = ::close(fd) == 0;
  if (!written || !closed)
    fail(argument, file.target, fmt::format("cannot be written: {}", written ? errno_text() : reason));
}

void OutputFiles::publish() {
  for (File& file : files_) {
    if (::rename(file.temporary.c_str(), file.target.c_str()) != 0) {
      fail(file.argument, file.target, fmt::format("cannot be put in place: {}", errno_text()));
    }
    file.temporary.clear();
  }
}

}  // namespace splitq::cli
