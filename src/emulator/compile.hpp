// Kernels for the emulator, compiled on first use by this machine's C++ compiler, as NVRTC compiles them for a GPU, and kept
// in the same cache under the same rules. A fresh object calls the instructions that the program carries.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/disk_cache.hpp"
#include "cuda/sources.hpp"
#include "problem/status.hpp"

namespace splitq::emulator {

/// Runs one thread of a kernel on its parameter.
using KernelFunction = void (*)(const void* params);

struct HostCompilerSettings {
  std::filesystem::path cache_folder{};  // empty: none
  std::string source_folder{};           // kernels/ on disk instead of what the library embeds
  std::string compiler{};                // "clang++", "ccache g++"; empty: the first of c++, g++, clang++ that there is

  /// The cache's variables, and CXX.
  static HostCompilerSettings from_environment();
};

class HostCompiler {
 public:
  explicit HostCompiler(HostCompilerSettings settings);

  /// The kernel `entry` of a header of kernels/, which takes one `params_type`. Compiled once, whoever asks how often.
  Status get(const std::string& header, const std::string& entry, const std::string& params_type,
             KernelFunction* kernel);

  /// The command and what it says of its version.
  Status find_compiler(std::string* version);

 private:
  struct Slot {
    std::mutex mutex;
    KernelFunction kernel = nullptr;
  };

  Status find_or_compile(const std::string& unit, KernelFunction* kernel);
  Status compile(const std::string& unit, const std::filesystem::path& folder, std::string* object) const;

  HostCompilerSettings settings_;
  cuda::DiskCache cache_;
  std::vector<cuda::Source> sources_;
  Status sources_status_;
  std::once_flag searched_;
  std::vector<std::string> command_;
  std::string version_;
  Status found_;
  std::mutex mutex_;  // of slots_
  std::unordered_map<std::string, std::shared_ptr<Slot>> slots_;
};

/// This process's, with the settings of its environment at the first call.
HostCompiler& host_compiler();

}  // namespace splitq::emulator
