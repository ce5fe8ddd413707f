// The sm80 family's specs: the name expression means the configuration, and what is chosen fits.
#include <gtest/gtest.h>

#include <set>

#include "cuda/architecture.hpp"
#include "cuda/variants.hpp"
#include "gpu/kernel.hpp"
#include "gpu/tiles.hpp"
#include "support.hpp"

namespace splitq::cuda {
namespace {

TEST(Sm80, OnlyWhatDiffersIsNamed) {
  EXPECT_EQ(gpu::to_string(sm80::Config{}), "splitq::sm80::Config{}");
  EXPECT_EQ(gpu::to_string(sm80::Config{.element = Element::kFp16, .head_dim = 64, .banded = true}),
            "splitq::sm80::Config{.element = splitq::Element::kFp16, .head_dim = 64, .banded = true}");
}

TEST(Sm80, VariantsAreDistinctAndFitTheArchitecture) {
  for (const std::string& architecture : known_architectures()) {
    std::size_t limit = 0;
    ASSERT_TRUE(max_shared_bytes(architecture, &limit).ok());
    std::set<KernelSpec> seen;
    for (const KernelSpec& spec : variants(architecture)) {
      EXPECT_LE(spec.shared_bytes, limit) << to_string(spec);
      EXPECT_TRUE(seen.insert(spec).second) << to_string(spec);
    }
    EXPECT_FALSE(seen.empty()) << architecture;
  }
}

TEST(Sm80, TilesShrinkToWhatABlockHas) {
  const auto tiles = [](int head_dim, int compute_capability, std::size_t kib) {
    return gpu::with_tiles({.head_dim = head_dim, .head_dim_v = head_dim}, {kib << 10, compute_capability});
  };
  EXPECT_EQ(tiles(256, 90, 227).tile_n, 64);
  EXPECT_EQ(tiles(256, 75, 64).tile_n, 32);
  EXPECT_EQ(tiles(96, 86, 99).stages, 2);
  EXPECT_EQ(tiles(96, 86, 48).stages, 1);
}

TEST(Sm80, CompilesFromTheEmbeddedSources) {
  SPLITQ_NEEDS_NVRTC();
  const Nvrtc* with = nullptr;
  ASSERT_TRUE(nvrtc(&with).ok());
  const sm80::Config config = gpu::with_tiles({.head_dim = 64, .head_dim_v = 64}, std::size_t{99} << 10);
  CompiledKernel kernel;
  const Status status = compile(*with, embedded_sources(), kernel_spec(gpu::forward_kernel(config), "sm_80"), &kernel);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_FALSE(kernel.usage.spills()) << kernel.log;
}

}  // namespace
}  // namespace splitq::cuda
