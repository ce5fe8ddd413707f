// What the emulator is for: each kind of mistake in a small kernel, beside the kernel without it.
#include <numeric>
#include <vector>

#include "device/matrix.hpp"
#include "device/memory.hpp"
#include "device/thread.hpp"
#include "launches.hpp"

namespace splitq::emulator::testing {
namespace {

using namespace splitq::device;

constexpr u32 kThreads = 128;

/// Reverses a block's values by way of shared memory, round after round in the same place.
struct Reverse {
  bool barrier_after_write = true, barrier_after_read = true;

  void operator()() const {
    const u32 t = thread_index(), s = shared_base();
    u32 value = t;
    for (u32 round = 0; round < 2; ++round) {
      st_shared_u32(s + 4 * t, value);
      if (barrier_after_write) bar_sync();
      value = ld_shared_u32(s + 4 * (kThreads - 1 - t));
      if (barrier_after_read) bar_sync();
    }
  }
};

const Launch kReverse{.threads = kThreads, .shared_bytes = 4 * kThreads};

TEST(Barrier, right) { expect_clean(kReverse, Reverse{}); }

TEST(Barrier, dropped_between_write_and_read) {
  for_each_run(kReverse, Reverse{.barrier_after_write = false}, [](const Report& report) {
    EXPECT_TRUE(report.has(Fault::kRace) || report.has(Fault::kUninitialised)) << report.to_string();
    EXPECT_TRUE(report.has(Fault::kRace)) << report.to_string();
  });
}

TEST(Barrier, dropped_between_read_and_write) {
  expect_flagged(kReverse, Fault::kRace, Reverse{.barrier_after_read = false}, "read it");
}

TEST(Barrier, two_writers) {
  expect_flagged(
      kReverse, Fault::kRace, [] { st_shared_u32(shared_base(), thread_index()); }, "wrote it");
}

TEST(Barrier, between_lanes_of_a_warp) {
  const auto kernel = [](bool barrier) {
    return [barrier] {
      const u32 t = thread_index(), s = shared_base();
      st_shared_u32(s + 4 * t, t);
      if (barrier) bar_warp_sync();
      shfl_sync_bfly(t, 1);  // meets, but orders no memory
      ld_shared_u32(s + 4 * (t ^ 1));
    };
  };
  expect_clean(kReverse, kernel(true));
  expect_flagged(kReverse, Fault::kRace, kernel(false));
}

/// Adds up tiles that arrive by cp.async in two stages.
struct Pipeline {
  const V4* tiles;
  u32* sums;
  bool wait = true, barrier_before_reuse = true, wait_before_barrier = true;
  static constexpr u32 kTiles = 4, kStages = 2;

  void load(u32 tile) const {
    if (tile < kTiles) {
      const u32 t = thread_index();
      cp_async_cg_16(shared_base() + (tile % kStages * kThreads + t) * 16, &tiles[tile * kThreads + t], 16);
    }
    cp_async_commit_group();
  }

  void operator()() const {
    const u32 t = thread_index();
    u32 sum = 0;
    load(0);
    for (u32 tile = 0; tile < kTiles; ++tile) {
      load(tile + 1);
      if (wait && wait_before_barrier) cp_async_wait_group<1>();
      bar_sync();
      if (wait && !wait_before_barrier) cp_async_wait_group<1>();
      sum += ld_shared_v4(shared_base() + (tile % kStages * kThreads + (t ^ 37)) * 16).x;
      if (barrier_before_reuse) bar_sync();
    }
    st_global(&sums[t], sum);
  }
};

class CpAsync : public ::testing::Test {
 protected:
  CpAsync() : tiles(Pipeline::kTiles * kThreads), sums(kThreads) {
    for (u32 i = 0; i < tiles.size(); ++i) tiles[i] = {i, 0, 0, 0};
    launch = {.threads = kThreads,
              .shared_bytes = Pipeline::kStages * kThreads * 16,
              .memory = {readable("tiles", tiles.data(), tiles.size() * sizeof(V4)),
                         writable("sums", sums.data(), sums.size() * sizeof(u32))}};
  }

  bool right() const {
    for (u32 t = 0; t < kThreads; ++t) {
      u32 expected = 0;
      for (u32 tile = 0; tile < Pipeline::kTiles; ++tile) expected += tile * kThreads + (t ^ 37);
      if (sums[t] != expected) return false;
    }
    return true;
  }

  std::vector<V4> tiles;
  std::vector<u32> sums;
  Launch launch;
};

TEST_F(CpAsync, right) {
  for_each_run(launch, Pipeline{tiles.data(), sums.data()}, [&](const Report& report) {
    expect_clean(report);
    EXPECT_TRUE(right());
  });
}

TEST_F(CpAsync, dropped_wait) {
  for_each_run(launch, Pipeline{.tiles = tiles.data(), .sums = sums.data(), .wait = false},
               [](const Report& report) { EXPECT_TRUE(report.has(Fault::kInFlight)) << report.to_string(); });
  // Completing late, it is also a wrong answer, as it would be on a GPU on a bad day.
  launch.completion = Completion::kLate;
  run(launch, Pipeline{.tiles = tiles.data(), .sums = sums.data(), .wait = false});
  EXPECT_FALSE(right());
}

TEST_F(CpAsync, wait_after_the_barrier_covers_own_copies_alone) {
  for_each_run(launch, Pipeline{.tiles = tiles.data(), .sums = sums.data(), .wait_before_barrier = false},
               [](const Report& report) {
                 EXPECT_TRUE(report.has(Fault::kRace) || report.has(Fault::kInFlight)) << report.to_string();
               });
}

TEST_F(CpAsync, stage_overwritten_while_it_is_read) {
  for_each_run(launch, Pipeline{.tiles = tiles.data(), .sums = sums.data(), .barrier_before_reuse = false},
               [](const Report& report) { EXPECT_TRUE(report.has(Fault::kRace)) << report.to_string(); });
}

/// A 64x64 tile of 16-bit elements goes in by rows and is read by columns of 16 bytes through ldmatrix.
struct Swizzled {
  u32* out;
  u32 write_mask = 7, read_mask = 7;
  static constexpr u32 kRows = 64, kRowBytes = 128, kChunks = 8;

  static u32 at(u32 row, u32 chunk, u32 mask) { return shared_base() + row * kRowBytes + (chunk ^ (row & mask)) * 16; }

  void operator()() const {
    const u32 t = thread_index();
    for (u32 i = t; i < kRows * kChunks; i += 32) st_shared_v4(at(i / kChunks, i % kChunks, write_mask), {i, i, i, i});
    bar_sync();
    for (u32 chunk = 0; chunk < kChunks; ++chunk) {
      u32 r[4];
      ldmatrix_x4(r, at(t, chunk, read_mask));
      for (u32 i = 0; i < 4; ++i) st_global(&out[(chunk * 4 + i) * 32 + t], r[i]);
    }
  }

  static bool right(const std::vector<u32>& out) {
    for (u32 chunk = 0; chunk < kChunks; ++chunk)
      for (u32 i = 0; i < 4; ++i)
        for (u32 t = 0; t < 32; ++t)
          if (out[(chunk * 4 + i) * 32 + t] != (8 * i + t / 4) * kChunks + chunk) return false;
    return true;
  }
};

TEST(Swizzle, right_wrong_and_none) {
  std::vector<u32> out(Swizzled::kChunks * 4 * 32);
  const Launch launch{.shared_bytes = Swizzled::kRows * Swizzled::kRowBytes,
                      .memory = {writable("out", out.data(), out.size() * sizeof(u32))}};
  for_each_run(launch, Swizzled{out.data()}, [&](const Report& report) {
    expect_clean(report);
    EXPECT_TRUE(Swizzled::right(out));
    EXPECT_EQ(report.counters.shared_bank_conflicts, 0u);
  });
  // Written by one rule and read by another: a wrong answer.
  for_each_run(launch, Swizzled{.out = out.data(), .read_mask = 3},
               [&](const Report&) { EXPECT_FALSE(Swizzled::right(out)); });
  // No swizzle is right, and the eight rows of every matrix share four banks.
  for_each_run(launch, Swizzled{.out = out.data(), .write_mask = 0, .read_mask = 0}, [&](const Report& report) {
    expect_clean(report);
    EXPECT_TRUE(Swizzled::right(out));
    EXPECT_EQ(report.counters.shared_bank_conflicts, Swizzled::kChunks * 4 * 7);
  });
}

/// Copies rows; `past` rows too many.
struct CopyRows {
  const float* in;
  float* out;
  u32 rows, past_in = 0, past_out = 0;
  static constexpr u32 kColumns = 32;

  void operator()() const {
    const u32 t = thread_index();
    for (u32 row = 0; row < rows + past_in + past_out; ++row) {
      const float x = row < rows + past_in ? ld_global(&in[row * kColumns + t]) : 0.0f;
      if (row < rows + past_out) st_global(&out[row * kColumns + t], x);
    }
  }
};

TEST(Rows, off_by_one) {
  constexpr u32 kRows = 5;
  // One row more is there, so that no sanitizer sees it: the launch doesn't name it.
  std::vector<float> in((kRows + 1) * CopyRows::kColumns), out(in.size(), -1.0f);
  std::iota(in.begin(), in.end(), 0.0f);
  const std::size_t bytes = kRows * CopyRows::kColumns * sizeof(float);
  const Launch launch{.memory = {readable("in", in.data(), bytes), writable("out", out.data(), bytes)}};
  expect_clean(launch, CopyRows{in.data(), out.data(), kRows});
  expect_flagged(launch, Fault::kGlobalBounds,
                 CopyRows{.in = in.data(), .out = out.data(), .rows = kRows, .past_in = 1}, "of in, which has 640");
  expect_flagged(launch, Fault::kGlobalBounds,
                 CopyRows{.in = in.data(), .out = out.data(), .rows = kRows, .past_out = 1}, "of out, which has 640");
  EXPECT_EQ(out[kRows * CopyRows::kColumns], -1.0f) << "a write out of bounds was carried out";
}

TEST(Rows, input_is_read_only) {
  float in = 3;
  const Launch launch{.memory = {readable("in", &in, sizeof in)}};
  expect_flagged(
      launch, Fault::kGlobalBounds, [&] { st_global(&in, 4.0f); }, "read-only");
  EXPECT_EQ(in, 3.0f);
}

TEST(Shared, off_by_one_row) {
  const auto kernel = [](u32 rows) {
    return [rows] {
      for (u32 row = 0; row < rows; ++row) st_shared_u32(shared_base() + (row * 32 + thread_index()) * 4, row);
    };
  };
  const Launch launch{.shared_bytes = 4 * 128};
  expect_clean(launch, kernel(4));
  expect_flagged(launch, Fault::kSharedBounds, kernel(5), "of the block's 512");
  expect_flagged(launch, Fault::kSharedBounds, [] { ld_shared_u32(4 * thread_index()); });  // forgot the base
}

TEST(Shared, uninitialised_read) {
  const auto kernel = [](u32 written) {
    return [written] {
      const u32 t = thread_index(), a = shared_base() + 16 * t;
      if (t < written) st_shared_v4(a, {t, t, t, t});
      bar_sync();
      u32 r[4];
      ldmatrix_x4(r, a);
    };
  };
  const Launch launch{.shared_bytes = 512};
  expect_clean(launch, kernel(32));
  expect_flagged(launch, Fault::kUninitialised, kernel(31), "thread 31: shared read at 0x5f0");
}

TEST(Shared, each_block_starts_uninitialised) {
  const Launch launch{.grid = {2, 1, 1}, .shared_bytes = 128};
  expect_flagged(
      launch, Fault::kUninitialised,
      [] {
        const u32 a = shared_base() + 4 * thread_index();
        if (block_index_x() == 0) st_shared_u32(a, 1);
        ld_shared_u32(a);
      },
      "block (1, 0, 0)");
}

TEST(Shared, poison_is_nan) {
  const Launch launch{.shared_bytes = 128};
  run(launch, [] {
    const float x = ld_shared_f32(shared_base() + 4 * thread_index());
    EXPECT_NE(x, x);
  });
}

TEST(Shared, misaligned) {
  const Launch launch{.shared_bytes = 1024};
  expect_flagged(
      launch, Fault::kMisaligned,
      [] {
        st_shared_v4(shared_base() + 16 * thread_index() + 8, {0, 0, 0, 0});
      },
      "multiple of 16");
}

TEST(Deadlock, barrier_that_a_warp_does_not_reach) {
  const auto kernel = [](u32 count) {
    return [count] {
      if (thread_index() < 96) bar_sync(1, count);
    };
  };
  expect_clean(Launch{.threads = 128}, kernel(96));
  expect_flagged(Launch{.threads = 128}, Fault::kDeadlock, kernel(128),
                 "threads 0-95 wait at bar.sync 1, 128; threads 96-127 have ended");
}

TEST(Deadlock, crossed_barriers) {
  const auto kernel = [](bool crossed) {
    return [crossed] {
      const bool first = thread_index() < 32 || !crossed;
      bar_sync(first ? 1 : 2, 64);
      bar_sync(first ? 2 : 1, 64);
    };
  };
  expect_clean(Launch{.threads = 64}, kernel(false));
  expect_flagged(Launch{.threads = 64}, Fault::kDeadlock, kernel(true),
                 "threads 0-31 wait at bar.sync 1, 64; threads 32-63 wait at bar.sync 2, 64");
}

TEST(Deadlock, lanes_missing_from_a_warp_wide_instruction) {
  expect_flagged(
      Launch{}, Fault::kDeadlock,
      [] {
        if (thread_index() % 2 == 0) vote_any(true);
      },
      "wait at vote.sync.any");
}

TEST(Divergence, lanes_at_different_instructions) {
  expect_flagged(Launch{}, Fault::kDivergence, [] {
    if (thread_index() < 8)
      vote_any(true);
    else
      bar_warp_sync();
  });
}

TEST(Divergence, half_a_warp_at_a_barrier) {
  expect_flagged(
      Launch{.threads = 64}, Fault::kBarrier, [] { bar_sync(thread_index() % 32 < 16 ? 1 : 2, 32); },
      "of the 32 threads of warp");
}

TEST(Barrier, against_its_rules) {
  expect_flagged(
      Launch{}, Fault::kBarrier, [] { bar_sync(16, 32); }, "the id may be 0 to 15");
  expect_flagged(
      Launch{}, Fault::kBarrier, [] { bar_sync(1, 31); }, "a multiple of 32");
  expect_flagged(Launch{.threads = 64}, Fault::kBarrier, [] { bar_sync(1, thread_index() < 32 ? 64 : 32); });
  expect_flagged(Launch{.threads = 64}, Fault::kBarrier, [] {
    if (thread_index() < 32)
      bar_sync();
    else
      bar_red_or(true);
  });
}

}  // namespace
}  // namespace splitq::emulator::testing
