#include "cuda/variants.hpp"

#include <array>

#include "cuda/architecture.hpp"
#include "gpu/tiles.hpp"

namespace splitq::cuda {
namespace {

constexpr std::array<int, 7> kHeadDims{32, 64, 96, 128, 160, 192, 256};
constexpr int kTuring = 75;              // has no bf16
constexpr std::int64_t kWide = 1 << 10;  // a head size of the general kernels

using Config = sm80::Config;

/// The options of a forward, each alone, as changes of a configuration; the plain one and the causal one first.
constexpr std::array<void (*)(Config&), 12> kOptions{
    +[](Config&) {},
    +[](Config& c) { c.banded = true; },
    +[](Config& c) { c.pack_group = true; },
    +[](Config& c) { c.scaled = true; },
    +[](Config& c) { c.softcap = true; },
    +[](Config& c) { c.alibi = true; },
    +[](Config& c) { c.bias = true; },
    +[](Config& c) { c.mask = true; },
    +[](Config& c) { c.dropout = true; },
    +[](Config& c) { c.indexed = true; },
    +[](Config& c) { c.padded = true; },
    +[](Config& c) { c.padded = true, c.aligned = false; },
};

}  // namespace

std::vector<KernelSpec> variants(const std::string& architecture) {
  std::vector<KernelSpec> out;
  std::size_t shared_bytes = 0;
  if (!max_shared_bytes(architecture, &shared_bytes).ok()) return out;
  const gpu::Target target(shared_bytes, compute_capability(architecture));
  const bool has_bf16 = target.compute_capability > kTuring;
  for (const Element element : {Element::kFp32, Element::kFp16, Element::kBf16}) {
    for (const std::int64_t head_dim_v : {std::int64_t{1}, kWide}) {
      out.push_back(kernel_spec(gpu::forward_kernel(gpu::general_config(element, head_dim_v)), architecture));
    }
  }
  for (const Element element : {Element::kFp16, Element::kBf16}) {
    if (element == Element::kBf16 && !has_bf16) continue;
    for (const int head_dim : kHeadDims) {
      for (const auto& option : kOptions) {
        Config config{.element = element, .head_dim = head_dim, .head_dim_v = head_dim};
        option(config);
        out.push_back(kernel_spec(gpu::forward_kernel(gpu::with_tiles(config, target)), architecture));
      }
    }
  }
  return out;
}

}  // namespace splitq::cuda
