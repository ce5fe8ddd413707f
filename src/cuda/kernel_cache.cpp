#include "cuda/kernel_cache.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>

#include "cuda/dump.hpp"
#include "cuda/pack.hpp"

namespace splitq::cuda {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

const char* to_string(Origin origin) {
  switch (origin) {
    case Origin::kMemory:
      return "memory";
    case Origin::kPack:
      return "pack";
    case Origin::kDisk:
      return "disk";
    case Origin::kCompiler:
      break;
  }
  return "compiler";
}

CacheSettings CacheSettings::from_environment() {
  return {.folder = default_cache_folder(),
          .pack = variable("SPLITQ_PACK"),
          .source_folder = variable("SPLITQ_KERNEL_SOURCE_DIR"),
          .dump_folder = variable("SPLITQ_DUMP_DIR")};
}

KernelCache::KernelCache(CacheSettings settings, NvrtcLoader nvrtc)
    : settings_(std::move(settings)), nvrtc_(nvrtc), disk_(settings_.folder) {
  if (settings_.source_folder.empty()) {
    sources_ = &embedded_sources();
  } else {
    sources_status_ = read_sources(settings_.source_folder, &disk_sources_);
    sources_ = &disk_sources_;
  }
  sources_digest_ = digest_of(*sources_);
  if (settings_.pack.empty()) return;
  pack_status_ = read_pack(settings_.pack, &pack_);
  // Not fatal: what the pack would have held can be compiled.
  if (!pack_status_.ok()) fmt::print(stderr, "splitq: SPLITQ_PACK: {}\n", pack_status_.message);
}

Status KernelCache::key_of(const KernelSpec& spec, std::string* key) const {
  SPLITQ_TRY(sources_status_);
  *key = fmt::format("sources {}\noptions {}\nheader {}\nentry {}\narchitecture {}\n", sources_digest_,
                     fmt::join(compile_options(spec.architecture), " "), spec.header, spec.entry, spec.architecture);
  return {};
}

Status KernelCache::get(const KernelSpec& spec, std::shared_ptr<const CompiledKernel>* kernel, Origin* origin) {
  std::string key;
  SPLITQ_TRY(key_of(spec, &key));
  std::shared_ptr<Slot> slot;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Slot>& found = slots_[key];
    if (!found) found = std::make_shared<Slot>();
    slot = found;
  }
  const std::lock_guard lock(slot->mutex);
  Origin from = Origin::kMemory;
  if (!slot->kernel) {
    CompiledKernel made;
    SPLITQ_TRY(find_or_compile(spec, key, &made, &from));
    slot->kernel = std::make_shared<const CompiledKernel>(std::move(made));
  }
  *kernel = slot->kernel;
  if (origin) *origin = from;
  return {};
}

Status KernelCache::find_or_compile(const KernelSpec& spec, const std::string& key, CompiledKernel* kernel,
                                    Origin* origin) {
  if (const auto packed = pack_.find(key); packed != pack_.end()) {
    *kernel = packed->second;
    *origin = Origin::kPack;
    return {};
  }
  const Nvrtc* nvrtc = nullptr;
  if (Status found = nvrtc_(&nvrtc); !found.ok()) {
    if (!pack_status_.ok()) found.message += "; " + pack_status_.message;
    if (pack_status_.ok() && !settings_.pack.empty()) {
      found.message +=
          fmt::format("; pack '{}' does not hold {} of these kernel sources", settings_.pack, to_string(spec));
    }
    return found;
  }
  const std::string versioned = fmt::format("{}compiler {}\n", key, nvrtc->name());
  const auto from_disk = [&] {
    std::optional<CompiledKernel> stored = disk_.load(versioned);
    if (!stored) return false;
    *kernel = std::move(*stored);
    *origin = Origin::kDisk;
    return true;
  };
  if (from_disk()) return {};
  const DiskCache::Lock lock = disk_.lock(versioned);
  if (from_disk()) return {};  // who held the lock before has compiled it
  SPLITQ_TRY(compile_and_dump(*nvrtc, spec, key, kernel));
  *origin = Origin::kCompiler;
  disk_.store(lock, versioned, *kernel);
  return {};
}

Status KernelCache::compile_and_dump(const Nvrtc& nvrtc, const KernelSpec& spec, const std::string& key,
                                     CompiledKernel* kernel) {
  if (settings_.dump_folder.empty()) return compile(nvrtc, *sources_, spec, kernel);
  std::string ptx;
  Status status = compile(nvrtc, *sources_, spec, kernel, &ptx);
  const Dump dump{.key = key, .log = status.ok() ? kernel->log : status.message, .ptx = ptx, .image = kernel->image};
  if (const Status written = write_dump(settings_.dump_folder, *sources_, spec, dump); !written.ok()) {
    fmt::print(stderr, "splitq: SPLITQ_DUMP_DIR: {}\n", written.message);
  }
  return status;
}

KernelCache& kernel_cache() {
  static KernelCache cache(CacheSettings::from_environment());
  return cache;
}

}  // namespace splitq::cuda
