// Threads, memory, arithmetic and conversions against plain computations.
#include <cmath>
#include <limits>
#include <vector>

#include "device/convert.hpp"
#include "device/math.hpp"
#include "device/memory.hpp"
#include "device/thread.hpp"
#include "launches.hpp"

namespace splitq::emulator::testing {
namespace {

using namespace splitq::device;

/// Runs f() in one thread of a warp whose other threads do the same, and gives what it returned there.
template <class F>
std::vector<float> by_lane(F f) {
  std::vector<float> out(kWarpSize);
  const Launch launch{.memory = {writable("out", out.data(), out.size() * sizeof(float))}};
  expect_clean(run(launch, [&] { st_global(&out[thread_index()], f(thread_index())); }));
  return out;
}

TEST(Thread, every_block_and_thread_runs_once) {
  const Dim3 grid{3, 2, 2};
  std::vector<u32> count(3 * 2 * 2 * 64);
  const Launch launch{.grid = grid, .threads = 64, .memory = {writable("count", count.data(), count.size() * 4)}};
  const auto kernel = [&] {
    const u32 block = (block_index_z() * 2 + block_index_y()) * grid_size_x() + block_index_x();
    atom_add_global(&count[block * 64 + thread_index()], 1u);
  };
  for_each_run(
      launch, kernel,
      [&](const Report& report) {
        expect_clean(report);
        EXPECT_EQ(report.counters.blocks, 12u);
        EXPECT_EQ(count, std::vector<u32>(count.size(), 1));
      },
      [&] { count.assign(count.size(), 0); });
}

TEST(Thread, shuffles) {
  for (const u32 mask : {1u, 2u, 4u, 8u, 16u, 31u}) {
    const auto out = by_lane([&](u32 lane) { return shfl_sync_bfly(static_cast<float>(lane) + 0.5f, mask); });
    for (u32 l = 0; l < kWarpSize; ++l) EXPECT_EQ(out[l], static_cast<float>(l ^ mask) + 0.5f);
  }
  const auto rotated = by_lane([](u32 lane) { return static_cast<float>(shfl_sync_idx(100 + lane, lane + 5)); });
  for (u32 l = 0; l < kWarpSize; ++l) EXPECT_EQ(rotated[l], static_cast<float>(100 + (l + 5) % 32));
}

TEST(Thread, vote) {
  EXPECT_EQ(by_lane([](u32 lane) { return vote_any(lane == 17) ? 1.0f : 0.0f; }), std::vector<float>(kWarpSize, 1));
  EXPECT_EQ(by_lane([](u32) { return vote_any(false) ? 1.0f : 0.0f; }), std::vector<float>(kWarpSize, 0));
}

TEST(Thread, barriers_that_reduce) {
  for (const u32 chosen : {5u, 77u, 1000u}) {
    std::vector<u32> out(96);
    const Launch launch{.threads = 96, .shared_bytes = 384, .memory = {writable("out", out.data(), 384)}};
    const auto kernel = [&] {
      const u32 own = shared_base() + thread_index() * 4, other = shared_base() + (95 - thread_index()) * 4;
      st_shared_u32(own, thread_index());
      const bool any = bar_red_or(thread_index() == chosen);
      const bool none = bar_red_or(false);
      st_global(&out[thread_index()], any && !none ? ld_shared_u32(other) : 1000 + static_cast<u32>(none));
    };
    for_each_run(launch, kernel, [&](const Report& report) {
      expect_clean(report);
      for (u32 t = 0; t < 96; ++t) EXPECT_EQ(out[t], chosen < 96 ? 95 - t : 1000);
    });
  }
}

TEST(Thread, named_barriers_are_of_those_who_use_them) {
  std::vector<u32> out(128);
  const Launch launch{.threads = 128, .shared_bytes = 512, .memory = {writable("out", out.data(), 512)}};
  const auto kernel = [&] {
    const u32 t = thread_index(), half = t / 64;
    st_shared_u32(shared_base() + 4 * t, t);
    bar_sync(1 + half, 64);
    st_global(&out[t], ld_shared_u32(shared_base() + 4 * (t ^ 63)));  // of the same half
  };
  for_each_run(launch, kernel, [&](const Report& report) {
    expect_clean(report);
    EXPECT_EQ(report.counters.barriers, 2u);
    for (u32 t = 0; t < 128; ++t) EXPECT_EQ(out[t], t ^ 63);
  });
}

TEST(Thread, a_thread_that_has_ended_is_not_waited_for) {
  expect_clean(Launch{.threads = 64}, [] {
    if (thread_index() < 32) return;
    bar_sync();
  });
}

TEST(Memory, shared_words_and_vectors) {
  std::vector<V4> out(32);
  const Launch launch{.shared_bytes = 1024, .memory = {writable("out", out.data(), 512)}};
  expect_clean(launch, [&] {
    const u32 t = thread_index(), a = shared_base() + 16 * t;
    st_shared_v4(a, {t, t + 1, 0, 0});
    st_shared_u32(a + 8, t + 2);
    st_shared_f32(a + 12, static_cast<float>(t));
    EXPECT_EQ(ld_shared_u32(a), t);
    EXPECT_EQ(ld_shared_f32(a + 12), static_cast<float>(t));
    st_global_v4(&out[t], ld_shared_v4(a));
  });
  for (u32 t = 0; t < 32; ++t) {
    EXPECT_EQ(out[t].y, t + 1);
    EXPECT_EQ(out[t].z, t + 2);
    EXPECT_EQ(as_float(out[t].w), static_cast<float>(t));
  }
}

TEST(Memory, global_types) {
  struct alignas(16) Row {
    u8 a;
    u16 b;
    i32 c;
    i64 d;
  };
  Row in{7, 300, -5, i64{1} << 40}, out{};
  const Launch launch{.memory = {readable("in", &in, sizeof in), writable("out", &out, sizeof out)}};
  expect_clean(launch, [&] {
    if (thread_index() != 0) return;
    st_global(&out.a, ld_global(&in.a));
    st_global(&out.b, ld_global(&in.b));
    st_global(&out.c, ld_global(&in.c));
    st_global(&out.d, ld_global(&in.d));
  });
  EXPECT_EQ(out.a, in.a);
  EXPECT_EQ(out.b, in.b);
  EXPECT_EQ(out.c, in.c);
  EXPECT_EQ(out.d, in.d);
}

TEST(Memory, cp_async_copies_or_fills_with_zeros) {
  std::vector<V4> in(32), out(32);
  for (u32 t = 0; t < 32; ++t) in[t] = {t, t, t, t};
  // The second half's source is not readable: with 0 source bytes it isn't read.
  const Launch launch{.shared_bytes = 512,
                      .memory = {readable("in", in.data(), 256), writable("out", out.data(), 512)}};
  for_each_run(
      launch,
      [&] {
        const u32 t = thread_index(), a = shared_base() + 16 * t;
        cp_async_cg_16(a, &in[t], t < 16 ? 16 : 0);
        cp_async_commit_group();
        cp_async_wait_group<0>();
        st_global_v4(&out[t], ld_shared_v4(a));
      },
      [&](const Report& report) {
        expect_clean(report);
        EXPECT_EQ(report.counters.global_bytes_read, 256u);
        for (u32 t = 0; t < 32; ++t) EXPECT_EQ(out[t].w, t < 16 ? t : 0);
      });
}

TEST(Memory, cp_async_wait_leaves_the_newest_groups) {
  std::vector<V4> in(3);
  const Launch launch{.shared_bytes = 64, .memory = {writable("in", in.data(), 48)}};
  for_each_run(
      launch,
      [&] {
        if (thread_index() != 0) return;
        for (u32 i = 0; i < 3; ++i) {
          cp_async_cg_16(shared_base() + 16 * i, &in[i], 16);
          cp_async_commit_group();
        }
        cp_async_wait_group<1>();
        ld_shared_v4(shared_base());
        ld_shared_v4(shared_base() + 16);
      },
      [](const Report& report) { expect_clean(report); });
  expect_flagged(launch, Fault::kInFlight, [&] {
    if (thread_index() != 0) return;
    for (u32 i = 0; i < 3; ++i) {
      cp_async_cg_16(shared_base() + 16 * i, &in[i], 16);
      cp_async_commit_group();
    }
    cp_async_wait_group<1>();
    ld_shared_v4(shared_base() + 32);
  });
}

TEST(Memory, late_copies_arrive_at_the_wait) {
  V4 in{1, 1, 1, 1};
  u32 out = 0;
  Launch launch{.shared_bytes = 16, .memory = {writable("in", &in, 16), writable("out", &out, 4)}};
  const auto kernel = [&] {
    if (thread_index() != 0) return;
    cp_async_cg_16(shared_base(), &in, 16);
    cp_async_commit_group();
    st_global(&in.x, 2u);  // a write to the source of a copy that nobody has waited for
    cp_async_wait_group<0>();
    st_global(&out, ld_shared_u32(shared_base()));
  };
  launch.completion = Completion::kAtOnce;
  run(launch, kernel);
  EXPECT_EQ(out, 1u);
  in.x = 1;
  launch.completion = Completion::kLate;
  run(launch, kernel);
  EXPECT_EQ(out, 2u);
}

TEST(Memory, atomics_add_up) {
  float sum = 0;
  u32 tickets = 0;
  std::vector<u32> ticket(256);
  const Launch launch{
      .grid = {4, 1, 1},
      .threads = 64,
      .memory = {writable("sum", &sum, 4), writable("tickets", &tickets, 4), writable("ticket", ticket.data(), 1024)}};
  expect_clean(run(launch, [&] {
    atom_add_global(&sum, 1.0f);
    st_global(&ticket[atom_add_global(&tickets, 1u)], 1u);
  }));
  EXPECT_EQ(sum, 256.0f);
  EXPECT_EQ(ticket, std::vector<u32>(256, 1));
}

TEST(Math, special_values) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  expect_clean(Launch{}, [&] {
    EXPECT_EQ(ex2_approx_ftz(-kInfinity), 0.0f);
    EXPECT_EQ(ex2_approx_ftz(-130.0f), 0.0f);  // 2^-130 is subnormal
    EXPECT_EQ(ex2_approx_ftz(3.0f), 8.0f);
    EXPECT_EQ(lg2_approx(0.0f), -kInfinity);
    EXPECT_EQ(lg2_approx(8.0f), 3.0f);
    EXPECT_EQ(rcp_approx(4.0f), 0.25f);
    EXPECT_EQ(fma_rn(2.0f, 3.0f, 1.0f), 7.0f);
    EXPECT_EQ(max(kNan, 1.0f), 1.0f);
    EXPECT_EQ(min(1.0f, kNan), 1.0f);
    EXPECT_EQ(mul_hi_u32(0x80000000u, 6), 3u);
  });
}

TEST(Convert, halves_of_a_pair) {
  expect_clean(Launch{}, [] {
    EXPECT_EQ(pack<Fp16>(1.0f, -2.0f), 0xC0003C00u);
    EXPECT_EQ(pack<Bf16>(1.0f, -2.0f), 0xC0003F80u);
    EXPECT_EQ(unpack_low<Fp16>(0xC0003C00u), 1.0f);
    EXPECT_EQ(unpack_high<Fp16>(0xC0003C00u), -2.0f);
    EXPECT_EQ(unpack_high<Bf16>(0xC0003F80u), -2.0f);
    EXPECT_EQ(convert<Bf16>(1.00390625f), 0x3F80u);  // half-way between 1 and the next: to even
    EXPECT_EQ(to_float<Fp16>(convert<Fp16>(65519.0f)), 65504.0f);
  });
}

}  // namespace
}  // namespace splitq::emulator::testing
