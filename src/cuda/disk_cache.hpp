// Compiled kernels in a folder, one file each. Any number of processes use it at once; one that is killed leaves it
// whole. Where the folder cannot be used, so it is said once on stderr and everything works without it.
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "cuda/archive.hpp"

namespace splitq::cuda {

/// $SPLITQ_CACHE_DIR, else $XDG_CACHE_HOME/splitq, else $HOME/.cache/splitq; "" where none of them is set.
std::filesystem::path default_cache_folder();

class DiskCache {
 public:
  /// Makes the folder, for this user alone. An empty path: no disk cache.
  explicit DiskCache(std::filesystem::path folder);

  /// Nothing where there is no entry, or one that is damaged, another's, or of another key.
  std::optional<CompiledKernel> load(const std::string& key) const;

  /// Held by the process that compiles this key; the others wait for it. Ends with its holder, however that ends.
  class Lock {
   public:
    Lock() = default;
    explicit Lock(int file) : file_(file) {}
    Lock(Lock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
    Lock& operator=(Lock&&) = delete;
    ~Lock();
    explicit operator bool() const { return file_ >= 0; }

   private:
    int file_ = -1;
  };
  Lock lock(const std::string& key);

  /// Does nothing without the lock.
  void store(const Lock& lock, const std::string& key, const CompiledKernel& kernel);

  bool usable() const { return !folder_.empty(); }
  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path file(const std::string& key) const;

 private:
  void warn(const std::string& reason);

  std::filesystem::path folder_;
  std::once_flag warned_;
};

}  // namespace splitq::cuda
