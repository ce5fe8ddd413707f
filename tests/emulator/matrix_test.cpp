// ldmatrix and mma against the definitions of the PTX ISA, element by element.
#include "device/matrix.hpp"

#include <vector>

#include "device/convert.hpp"
#include "device/memory.hpp"
#include "device/thread.hpp"
#include "launches.hpp"

namespace splitq::emulator::testing {
namespace {

using namespace splitq::device;

/// Puts `matrices` 8x8 matrices with element (row, column) of matrix m = 64 m + 8 row + column into shared memory.
void fill_matrices(u32 matrices) {
  for (u32 row = thread_index(); row < 8 * matrices; row += kWarpSize) {
    u32 words[4];
    for (u32 c = 0; c < 4; ++c) words[c] = (8 * row + 2 * c) | (8 * row + 2 * c + 1) << 16;
    st_shared_v4(shared_base() + 16 * row, {words[0], words[1], words[2], words[3]});
  }
  bar_warp_sync();
}

struct Loaded {
  u32 r[4];
};

template <class Load>
std::vector<Loaded> load(Load load_matrices, u32 matrices) {
  std::vector<Loaded> out(kWarpSize);
  const Launch launch{.shared_bytes = 512, .memory = {writable("out", out.data(), out.size() * sizeof(Loaded))}};
  const Report report = run(launch, [&] {
    fill_matrices(matrices);
    u32 r[4] = {};
    // Rows are given in reverse order of matrices, so that an address taken from the wrong lane shows.
    const u32 t = thread_index() % (8 * matrices), m = matrices - 1 - t / 8;
    load_matrices(r, shared_base() + 16 * (8 * m + t % 8));
    for (u32 i = 0; i < matrices; ++i) st_global(&out[thread_index()].r[i], r[i]);
  });
  expect_clean(report);
  EXPECT_EQ(report.counters.shared_bank_conflicts, 0u);
  EXPECT_EQ(report.counters.shared_bytes_read, 128u * matrices);
  return out;
}

u32 element(u32 matrix, u32 row, u32 column) { return 64 * matrix + 8 * row + column; }

void expect_plain(const std::vector<Loaded>& out, u32 matrices) {
  for (u32 l = 0; l < kWarpSize; ++l) {
    for (u32 i = 0; i < matrices; ++i) {
      const u32 m = matrices - 1 - i;
      EXPECT_EQ(out[l].r[i] & 0xFFFF, element(m, l / 4, l % 4 * 2)) << l;
      EXPECT_EQ(out[l].r[i] >> 16, element(m, l / 4, l % 4 * 2 + 1)) << l;
    }
  }
}

void expect_transposed(const std::vector<Loaded>& out, u32 matrices) {
  for (u32 l = 0; l < kWarpSize; ++l) {
    for (u32 i = 0; i < matrices; ++i) {
      const u32 m = matrices - 1 - i;
      EXPECT_EQ(out[l].r[i] & 0xFFFF, element(m, l % 4 * 2, l / 4)) << l;
      EXPECT_EQ(out[l].r[i] >> 16, element(m, l % 4 * 2 + 1, l / 4)) << l;
    }
  }
}

TEST(Ldmatrix, x4) {
  expect_plain(load([](u32(&r)[4], u32 a) { ldmatrix_x4(r, a); }, 4), 4);
}

TEST(Ldmatrix, x4_trans) {
  expect_transposed(load([](u32(&r)[4], u32 a) { ldmatrix_x4_trans(r, a); }, 4), 4);
}

TEST(Ldmatrix, x2) {
  const auto two = [](u32(&r)[4], u32 a) {
    u32 half[2];
    ldmatrix_x2(half, a);
    r[0] = half[0], r[1] = half[1];
  };
  expect_plain(load(two, 2), 2);
}

TEST(Ldmatrix, x2_trans) {
  const auto two = [](u32(&r)[4], u32 a) {
    u32 half[2];
    ldmatrix_x2_trans(half, a);
    r[0] = half[0], r[1] = half[1];
  };
  expect_transposed(load(two, 2), 2);
}

/// D = A B + C by fragments laid out as figures 79 to 81 of the PTX ISA have them, written out register by register.
template <class T>
void check_mma() {
  float a[16][16], b[16][8], c[16][8], d[16][8];
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k) a[i][k] = static_cast<float>((i * 7 + k * 3) % 11 - 5);
    for (int n = 0; n < 8; ++n)
      b[i][n] = static_cast<float>((i * 5 + n * 2) % 13 - 6) / 4, c[i][n] = static_cast<float>(i - n);
  }
  const Launch launch{.memory = {writable("d", d, sizeof d)}};
  const Report report = run(launch, [&] {
    const u32 g = thread_index() / 4, t = thread_index() % 4;
    const u32 ra[4] = {pack<T>(a[g][2 * t], a[g][2 * t + 1]), pack<T>(a[g + 8][2 * t], a[g + 8][2 * t + 1]),
                       pack<T>(a[g][2 * t + 8], a[g][2 * t + 9]), pack<T>(a[g + 8][2 * t + 8], a[g + 8][2 * t + 9])};
    const u32 rb[2] = {pack<T>(b[2 * t][g], b[2 * t + 1][g]), pack<T>(b[2 * t + 8][g], b[2 * t + 9][g])};
    float rd[4] = {c[g][2 * t], c[g][2 * t + 1], c[g + 8][2 * t], c[g + 8][2 * t + 1]};
    mma_m16n8k16<T>(rd, ra, rb);
    st_global(&d[g][2 * t], rd[0]);
    st_global(&d[g][2 * t + 1], rd[1]);
    st_global(&d[g + 8][2 * t], rd[2]);
    st_global(&d[g + 8][2 * t + 1], rd[3]);
  });
  expect_clean(report);
  EXPECT_EQ(report.counters.matmul_flops, 2u * 16 * 8 * 16);
  for (int i = 0; i < 16; ++i) {
    for (int n = 0; n < 8; ++n) {
      float expected = c[i][n];
      for (int k = 0; k < 16; ++k) expected += a[i][k] * b[k][n];
      EXPECT_EQ(d[i][n], expected) << i << ", " << n;  // small integers and quarters: exact
    }
  }
}

TEST(Mma, m16n8k16_fp16) { check_mma<Fp16>(); }
TEST(Mma, m16n8k16_bf16) { check_mma<Bf16>(); }

/// The two instructions together, as a kernel uses them: A from rows, B from the rows of its transpose, as K is stored.
TEST(Mma, fragments_from_ldmatrix) {
  std::vector<float> d(16 * 8);
  const Launch launch{.shared_bytes = (16 + 8) * 32, .memory = {writable("d", d.data(), d.size() * sizeof(float))}};
  const auto value_a = [](u32 i, u32 k) { return static_cast<float>(i) - static_cast<float>(k); };
  const auto value_b = [](u32 k, u32 n) { return static_cast<float>(k) + 2 * static_cast<float>(n) - 9; };
  const auto kernel = [&] {
    const u32 t = thread_index(), sa = shared_base(), sb = sa + 16 * 32;
    for (u32 i = t; i < 16 * 8; i += 32) {
      const u32 row = i / 8, k = i % 8 * 2;
      st_shared_u32(sa + row * 32 + k * 2, pack<Bf16>(value_a(row, k), value_a(row, k + 1)));
      if (row < 8) st_shared_u32(sb + row * 32 + k * 2, pack<Bf16>(value_b(k, row), value_b(k + 1, row)));
    }
    bar_sync();
    u32 ra[4], rb[2];
    ldmatrix_x4(ra, sa + (t % 16) * 32 + t / 16 * 16);
    ldmatrix_x2(rb, sb + (t % 8) * 32 + t / 8 % 2 * 16);
    float rd[4] = {};
    mma_m16n8k16<Bf16>(rd, ra, rb);
    for (u32 i = 0; i < 4; ++i) st_global(&d[(t / 4 + i / 2 * 8) * 8 + t % 4 * 2 + i % 2], rd[i]);
  };
  for_each_run(launch, kernel, [&](const Report& report) {
    expect_clean(report);
    for (u32 i = 0; i < 16; ++i) {
      for (u32 n = 0; n < 8; ++n) {
        float expected = 0;
        for (u32 k = 0; k < 16; ++k) expected += value_a(i, k) * value_b(k, n);
        EXPECT_EQ(d[i * 8 + n], expected);
      }
    }
  });
}

}  // namespace
}  // namespace splitq::emulator::testing
