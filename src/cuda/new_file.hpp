// A file that appears whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "problem/status.hpp"

namespace splitq::cuda {

class NewFile {
 public:
  NewFile() = default;
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();  // removes what was not published

  /// Finds out at once whether the file can be written, before an hour of work for it.
  Status open(const std::string& path);
  Status publish(std::string_view bytes);

 private:
  Status failed(int error) const;

  std::string path_, temporary_;
};

}  // namespace splitq::cuda
