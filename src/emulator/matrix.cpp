// kernels/device/matrix.hpp as the emulator carries it out.
#include "device/matrix.hpp"

#include <algorithm>

#include "emulator/block.hpp"
#include "emulator/element_of.hpp"

namespace splitq::device {
namespace {

using emulator::Block;
using emulator::kLanes;

constexpr u32 kRowBytes = 16;  // of an 8x8 matrix of 16-bit elements

template <int N>
void ldmatrix(const char* instruction, u32 (&r)[N], u32 address, bool transpose) {
  struct Lane {
    u32 address;
    u32 (&r)[N];
  } own{address, r};
  Block& block = Block::current();
  block.meet(instruction, &own, [&](Block::Operands& lanes) {
    const auto lane = [&](u32 l) -> Lane& { return *static_cast<Lane*>(lanes[l]); };
    emulator::WarpAccess access{kRowBytes, false, 0, {}};
    for (u32 m = 0; m < N; ++m) {
      u16 matrix[8][8];
      for (u32 row = 0; row < 8; ++row) {
        const u32 giver = 8 * m + row;
        access.mask |= 1u << giver;
        access.address[giver] = lane(giver).address;
        block.read_row(giver, lane(giver).address, matrix[row], kRowBytes);
      }
      for (u32 l = 0; l < kLanes; ++l) {
        const u32 g = l / 4, t = l % 4;
        const u16 low = transpose ? matrix[2 * t][g] : matrix[g][2 * t];
        const u16 high = transpose ? matrix[2 * t + 1][g] : matrix[g][2 * t + 1];
        lane(l).r[m] = low | static_cast<u32>(high) << 16;
      }
    }
    count_wavefronts(access, block.counters());
  });
}

}  // namespace

void ldmatrix_x4(u32 (&r)[4], u32 shared) { ldmatrix("ldmatrix.x4", r, shared, false); }
void ldmatrix_x4_trans(u32 (&r)[4], u32 shared) { ldmatrix("ldmatrix.x4.trans", r, shared, true); }
void ldmatrix_x2(u32 (&r)[2], u32 shared) { ldmatrix("ldmatrix.x2", r, shared, false); }
void ldmatrix_x2_trans(u32 (&r)[2], u32 shared) { ldmatrix("ldmatrix.x2.trans", r, shared, true); }

template <class T>
void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  constexpr u32 kM = 16, kN = 8, kK = 16;
  struct Lane {
    float (&d)[4];
    const u32 (&a)[4];
    const u32 (&b)[2];
  } own{d, a, b};
  Block& block = Block::current();
  block.meet(std::is_same_v<T, Fp16> ? "mma.m16n8k16.f16" : "mma.m16n8k16.bf16", &own, [&](Block::Operands& lanes) {
    const auto value = [](u32 pair, u32 half) {
      return emulator::element_to_float<T>(static_cast<u16>(pair >> (16 * half)));
    };
    float ma[kM][kK], mb[kK][kN], md[kM][kN];
    for (u32 l = 0; l < kLanes; ++l) {
      const Lane& lane = *static_cast<Lane*>(lanes[l]);
      const u32 g = l / 4, t = l % 4;
      for (u32 i = 0; i < 8; ++i)
        ma[g + (i / 2 % 2 != 0 ? 8 : 0)][2 * t + i % 2 + (i >= 4 ? 8 : 0)] = value(lane.a[i / 2], i % 2);
      for (u32 i = 0; i < 4; ++i) mb[2 * t + i % 2 + (i >= 2 ? 8 : 0)][g] = value(lane.b[i / 2], i % 2);
      for (u32 i = 0; i < 4; ++i) md[g + (i >= 2 ? 8 : 0)][2 * t + i % 2] = lane.d[i];
    }
    for (u32 m = 0; m < kM; ++m)
      for (u32 k = 0; k < kK; ++k)
        for (u32 n = 0; n < kN; ++n) md[m][n] += ma[m][k] * mb[k][n];
    for (u32 l = 0; l < kLanes; ++l) {
      Lane& lane = *static_cast<Lane*>(lanes[l]);
      for (u32 i = 0; i < 4; ++i) lane.d[i] = md[l / 4 + (i >= 2 ? 8 : 0)][2 * (l % 4) + i % 2];
    }
    block.counters().matmul_flops += 2 * kM * kN * kK;
  });
}
template void mma_m16n8k16<Fp16>(float (&)[4], const u32 (&)[4], const u32 (&)[2]);
template void mma_m16n8k16<Bf16>(float (&)[4], const u32 (&)[4], const u32 (&)[2]);

}  // namespace splitq::device
