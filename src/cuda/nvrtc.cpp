#include "cuda/nvrtc.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdlib>

#include "cuda/driver.hpp"
#include "cuda/shared_library.hpp"

namespace splitq::cuda {
namespace {

constexpr std::array<int, 2> kMajors{13, 12};                                 // newest first
constexpr std::array<const char*, 2> kFolders{"", "/usr/local/cuda/lib64/"};  // "": where the loader looks

/// A driver loads the kernels of its own major version and of older ones.
std::vector<std::string> candidates() {
  if (const char* named = std::getenv("SPLITQ_NVRTC"); named && *named) return {named};
  const Driver* with = nullptr;
  const bool has_driver = driver(&with).ok();
  std::vector<std::string> out;
  for (const int major : kMajors) {
    if (has_driver && with->version / 1000 < major) continue;
    for (const char* folder : kFolders) out.push_back(fmt::format("{}libnvrtc.so.{}", folder, major));
  }
  return out;
}

struct Loaded {
  Nvrtc nvrtc;
  Status status;
};

}  // namespace

std::string Nvrtc::name() const { return fmt::format("NVRTC {}.{}", major, minor); }

std::vector<int> Nvrtc::supported_architectures() const {
  int count = 0;
  if (get_num_supported_archs(&count) != 0 || count <= 0) return {};
  std::vector<int> out(static_cast<std::size_t>(count));
  return get_supported_archs(out.data()) == 0 ? out : std::vector<int>{};
}

Status load_nvrtc(const std::vector<std::string>& paths, Nvrtc* nvrtc) {
  for (const std::string& path : paths) {
    SharedLibrary library;
    if (!SharedLibrary::open(path, &library).ok()) continue;
    nvrtc->path = path;
#define SPLITQ_FIND(member, name, parameters)                                      \
  if (const Status found = library.find(name, &nvrtc->member); !found.ok()) {      \
    return Status::unsupported(fmt::format("NVRTC: {}: {}", path, found.message)); \
  }
    SPLITQ_NVRTC_FUNCTIONS(SPLITQ_FIND)
#undef SPLITQ_FIND
    if (nvrtc->version(&nvrtc->major, &nvrtc->minor) != 0) {
      return Status::unsupported(fmt::format("NVRTC: {}: it does not tell its version", path));
    }
    return {};
  }
  return Status::unsupported(
      fmt::format("NVRTC: not found (looked for {}); install CUDA's run-time compiler, name its file in SPLITQ_NVRTC, "
                  "or give compiled kernels in SPLITQ_PACK",
                  fmt::join(paths, ", ")));
}

Status nvrtc(const Nvrtc** nvrtc) {
  static const Loaded loaded = [] {
    Loaded out;
    out.status = load_nvrtc(candidates(), &out.nvrtc);
    return out;
  }();
  *nvrtc = loaded.status.ok() ? &loaded.nvrtc : nullptr;
  return loaded.status;
}

}  // namespace splitq::cuda
