// Folders, settings and kernels for the tests of the CUDA run-time.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "cuda/kernel_cache.hpp"

namespace splitq::cuda {

/// A folder that goes with the test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "splitq_cuda.XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline CacheSettings test_settings(const std::filesystem::path& folder) {
  return {.folder = folder, .source_folder = SPLITQ_TEST_KERNELS};
}

inline KernelSpec test_spec(int factor, const std::string& architecture = "sm_80", bool spill = false) {
  return {.header = "test/scale.hpp",
          .entry = "test::scale<test::Config{.factor = " + std::to_string(factor) +
                   ", .spill = " + (spill ? "true" : "false") + "}>",
          .architecture = architecture,
          .threads = 256,
          .shared_bytes = 1024};
}

inline Status no_nvrtc(const Nvrtc** nvrtc) {
  static Nvrtc none;
  *nvrtc = nullptr;
  return load_nvrtc({"libsplitq_no_such_compiler.so"}, &none);
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace splitq::cuda

#define SPLITQ_NEEDS_NVRTC()                                                                              \
  do {                                                                                                    \
    const ::splitq::cuda::Nvrtc* found_ = nullptr;                                                        \
    if (const ::splitq::Status s_ = ::splitq::cuda::nvrtc(&found_); !s_.ok()) GTEST_SKIP() << s_.message; \
  } while (false)
