// Where compiled kernels come from: this process's memory, a pack, the cache on disk, and at last the compiler.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/compile.hpp"
#include "cuda/disk_cache.hpp"
#include "problem/status.hpp"

namespace splitq::cuda {

struct CacheSettings {
  std::filesystem::path folder{};  // of the cache on disk; empty: none
  std::string pack{};              // SPLITQ_PACK: a file that `splitq precompile` wrote
  std::string source_folder{};     // SPLITQ_KERNEL_SOURCE_DIR: kernels/ on disk instead of what the library embeds
  std::string dump_folder{};       // SPLITQ_DUMP_DIR: takes source, log, PTX and cubin of every kernel compiled

  static CacheSettings from_environment();
};

enum class Origin { kMemory, kPack, kDisk, kCompiler };
const char* to_string(Origin origin);

class KernelCache {
 public:
  using NvrtcLoader = Status (*)(const Nvrtc**);
  explicit KernelCache(CacheSettings settings, NvrtcLoader nvrtc = cuda::nvrtc);

  /// Whoever asks for a kernel that is being compiled, in this process or another, waits for that one compilation.
  Status get(const KernelSpec& spec, std::shared_ptr<const CompiledKernel>* kernel, Origin* origin = nullptr);

  /// All that the machine code depends on except the compiler's version: what a pack goes by.
  Status key_of(const KernelSpec& spec, std::string* key) const;

  const DiskCache& disk() const { return disk_; }
  const CacheSettings& settings() const { return settings_; }
  const Status& pack_status() const { return pack_status_; }

 private:
  struct Slot {
    std::mutex mutex;
    std::shared_ptr<const CompiledKernel> kernel;
  };

  Status find_or_compile(const KernelSpec& spec, const std::string& key, CompiledKernel* kernel, Origin* origin);
  Status compile_and_dump(const Nvrtc& nvrtc, const KernelSpec& spec, const std::string& key, CompiledKernel* kernel);

  CacheSettings settings_;
  NvrtcLoader nvrtc_;
  std::vector<Source> disk_sources_;
  const std::vector<Source>* sources_ = nullptr;
  Status sources_status_;
  std::string sources_digest_;
  Status pack_status_;
  std::map<std::string, CompiledKernel> pack_;
  DiskCache disk_;
  std::mutex mutex_;  // of slots_
  std::unordered_map<std::string, std::shared_ptr<Slot>> slots_;
};

/// This process's, with the settings of its environment at the first call.
KernelCache& kernel_cache();

}  // namespace splitq::cuda
