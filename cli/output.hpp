// Result files that appear whole or not at all: each is written beside its target and renamed once all are complete.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tensor.hpp"

namespace splitq::cli {

class OutputFiles {
 public:
  OutputFiles() = default;
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;
  ~OutputFiles();  // removes what was written but not published

  /// Names a file that write() will be asked for. Checks what can be known before an hour of computing.
  void announce(const std::string& argument, const std::string& path);

  /// Writes an announced file's content beside it.
  void write(const std::string& argument, Tensor tensor);

  /// Puts every written file in its place.
  void publish();

 private:
  struct File {
    std::string argument;
    std::filesystem::path target;
    std::filesystem::path temporary{};  // empty until written
  };
  std::vector<File> files_;
};

}  // namespace splitq::cli
