// Counts that can be said in advance.
#include <vector>

#include "device/math.hpp"
#include "device/memory.hpp"
#include "device/thread.hpp"
#include "launches.hpp"

namespace splitq::emulator::testing {
namespace {

using namespace splitq::device;

/// Wavefronts and conflicts of one warp-wide store of `bytes` a lane, lane l at byte stride * l.
Counters store_with_stride(u32 bytes, u32 stride) {
  const Launch launch{.shared_bytes = std::size_t{stride} * 31 + 16};
  const Report report = run(launch, [&] {
    const u32 a = shared_base() + stride * thread_index();
    if (bytes == 4)
      st_shared_u32(a, 0);
    else
      st_shared_v4(a, {0, 0, 0, 0});
  });
  expect_clean(report);
  return report.counters;
}

TEST(Banks, words) {
  EXPECT_EQ(store_with_stride(4, 4).shared_bank_conflicts, 0u);
  EXPECT_EQ(store_with_stride(4, 4).shared_wavefronts, 1u);
  EXPECT_EQ(store_with_stride(4, 8).shared_bank_conflicts, 1u);
  EXPECT_EQ(store_with_stride(4, 128).shared_bank_conflicts, 31u);
  EXPECT_EQ(store_with_stride(4, 132).shared_bank_conflicts, 0u);  // a padded column
}

TEST(Banks, sixteen_bytes_go_by_eight_lanes) {
  EXPECT_EQ(store_with_stride(16, 16).shared_wavefronts, 4u);
  EXPECT_EQ(store_with_stride(16, 16).shared_bank_conflicts, 0u);
  EXPECT_EQ(store_with_stride(16, 128).shared_bank_conflicts, 28u);
  EXPECT_EQ(store_with_stride(16, 144).shared_bank_conflicts, 0u);
}

TEST(Banks, one_word_for_all_lanes_is_a_broadcast) {
  const Launch launch{.shared_bytes = 4};
  const Report report = run(launch, [] {
    if (thread_index() == 0) st_shared_u32(shared_base(), 1);
    bar_sync();
    ld_shared_u32(shared_base());
  });
  expect_clean(report);
  EXPECT_EQ(report.counters.shared_bank_conflicts, 0u);
  EXPECT_EQ(report.counters.shared_wavefronts, 2u);
}

TEST(Counters, work_of_a_known_kernel) {
  std::vector<float> in(128), out(128);
  const Launch launch{.grid = {2, 1, 1},
                      .threads = 64,
                      .shared_bytes = 256,
                      .memory = {readable("in", in.data(), 512), writable("out", out.data(), 512)}};
  for_each_run(
      launch,
      [&] {
        const u32 t = thread_index(), i = block_index_x() * 64 + t;
        st_shared_f32(shared_base() + 4 * t, ex2_approx_ftz(ld_global(&in[i])));
        bar_sync();
        float x = ld_shared_f32(shared_base() + 4 * (t ^ 32));
        for (u32 mask = 1; mask < 32; mask *= 2) x = max(x, shfl_sync_bfly(x, mask));
        st_global(&out[i], rcp_approx(x));
      },
      [](const Report& report) {
        expect_clean(report);
        const Counters expected{.global_bytes_read = 512,
                                .global_bytes_written = 512,
                                .shared_bytes_read = 512,
                                .shared_bytes_written = 512,
                                .shared_wavefronts = 8,
                                .ex2 = 128,
                                .rcp = 128,
                                .max_min = 5 * 128,
                                .shuffles = 5 * 4,
                                .barriers = 2,
                                .blocks = 2};
        EXPECT_TRUE(report.counters == expected);
      });
}

TEST(Run, the_seed_repeats_an_interleaving) {
  std::vector<u32> order(256);
  u32 next = 0;
  Launch launch{
      .grid = {2, 1, 1}, .threads = 128, .memory = {writable("order", order.data(), 1024), writable("next", &next, 4)}};
  const auto orders = [&](std::uint64_t seed) {
    next = 0;
    launch.seed = seed;
    run(launch, [&] { st_global(&order[atom_add_global(&next, 1u)], block_index_x() * 128 + thread_index()); });
    return order;
  };
  const auto first = orders(1);
  EXPECT_EQ(first, orders(1));
  EXPECT_NE(first, orders(2));
}

TEST(Run, an_exception_of_the_kernel_comes_out) {
  const auto kernel = [] {
    bar_sync();
    if (thread_index() == 40) throw std::runtime_error("from thread 40");
    bar_sync();
  };
  EXPECT_THROW(run(Launch{.threads = 64}, kernel), std::runtime_error);
  expect_clean(run(Launch{.threads = 64}, [] { bar_sync(); }));
}

TEST(Run, refuses_what_no_gpu_takes) {
  EXPECT_THROW(run(Launch{.threads = 0}, [] {}), std::invalid_argument);
  EXPECT_THROW(run(Launch{.threads = 48}, [] {}), std::invalid_argument);
  EXPECT_THROW(run(Launch{.threads = 2048}, [] {}), std::invalid_argument);
  EXPECT_THROW(run(Launch{.shared_bytes = 1 << 20}, [] {}), std::invalid_argument);
}

}  // namespace
}  // namespace splitq::emulator::testing
