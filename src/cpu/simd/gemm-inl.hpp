// The one matrix product that every step of attention is written in:
//
//   C[m][n] = init + sum_k A(m, k) * B[k][n]
//
// Lanes run along n, so B and C are rows of vectors; A is read element by element and broadcast, so that it may lie in
// either order (stride_m or stride_k is 1) and needs no packing. S' = K Q', O' = V' P', dV = P' dO, dK = dS' Q and
// dQ' = K' dS' all have this form when a query row is a lane.
#pragma once

#include "cpu/simd/vector-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace splitq::cpu::SPLITQ_ISA {

enum class Init {
  kZero,   // C = A B
  kAdd,    // C = C + A B
  kScale,  // C = C * factor[n] + A B
};

struct Operand {  // A: element (m, k) at data[m * stride_m + k * stride_k]
  const float* data;
  std::int64_t stride_m;
  std::int64_t stride_k;
};

struct Matrix {  // B or C: row r at data + r * stride
  float* data;
  std::int64_t stride;
};

/// One register tile. kAbsorb: a zero factor gives zero whatever the other is, NaN included (a hidden key must not leak).
template <int kRows, int kVecs, Init kInit, bool kAbsorb>
HWY_INLINE void gemm_tile(std::int64_t depth, const float* HWY_RESTRICT a, std::int64_t stride_m, std::int64_t stride_k,
                          const float* HWY_RESTRICT b, std::int64_t stride_b, float* HWY_RESTRICT c,
                          std::int64_t stride_c, const float* HWY_RESTRICT factor) {
  Vec sum[kRows][kVecs];
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < kVecs; ++n) {
      if constexpr (kInit == Init::kZero) {
        sum[m][n] = hn::Zero(kF);
      } else {
        sum[m][n] = hn::LoadU(kF, c + m * stride_c + n * kLanes);
        if constexpr (kInit == Init::kScale) sum[m][n] = hn::Mul(sum[m][n], hn::LoadU(kF, factor + n * kLanes));
      }
    }
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    Vec row[kVecs];
#pragma GCC unroll 8
    for (int n = 0; n < kVecs; ++n) row[n] = hn::LoadU(kF, b + n * kLanes);
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      const Vec x = hn::Set(kF, a[m * stride_m]);
#pragma GCC unroll 8
      for (int n = 0; n < kVecs; ++n) {
        if constexpr (kAbsorb) {
          const auto zero = hn::Or(hn::Eq(x, hn::Zero(kF)), hn::Eq(row[n], hn::Zero(kF)));
          sum[m][n] = hn::Add(sum[m][n], hn::IfThenZeroElse(zero, hn::Mul(x, row[n])));
        } else {
          sum[m][n] = hn::MulAdd(x, row[n], sum[m][n]);
        }
      }
    }
    a += stride_k;
    b += stride_b;
  }
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < kVecs; ++n) hn::StoreU(sum[m][n], kF, c + m * stride_c + n * kLanes);
  }
}

/// kVecs vectors of columns, all rows: B's columns stay in the first-level cache.
template <int kVecs, Init kInit, bool kAbsorb>
HWY_NOINLINE void gemm_columns(std::int64_t rows, std::int64_t depth, Operand a, const float* b, std::int64_t stride_b,
                               float* c, std::int64_t stride_c, const float* factor) {
  for (std::int64_t m = 0; m < rows; m += kTileRows) {
    gemm_tile<kTileRows, kVecs, kInit, kAbsorb>(depth, a.data + m * a.stride_m, a.stride_m, a.stride_k, b, stride_b,
                                                c + m * stride_c, stride_c, factor);
  }
}

template <Init kInit, bool kAbsorb>
void gemm_absorb(std::int64_t rows, std::int64_t vecs, std::int64_t depth, Operand a, Matrix b, Matrix c,
                 const float* factor) {
  for (std::int64_t n = 0; n < vecs;) {
    const std::int64_t left = vecs - n;
    const float* b_n = b.data + n * kLanes;
    float* c_n = c.data + n * kLanes;
    const float* factor_n = kInit == Init::kScale ? factor + n * kLanes : nullptr;
    // 4 = 2 + 2: two columns keep the arithmetic units busier than 3 + 1.
    const std::int64_t take = left == 4 ? 2 : left < kTileVecs ? left : kTileVecs;
    if (take == 3) gemm_columns<3, kInit, kAbsorb>(rows, depth, a, b_n, b.stride, c_n, c.stride, factor_n);
    if (take == 2) gemm_columns<2, kInit, kAbsorb>(rows, depth, a, b_n, b.stride, c_n, c.stride, factor_n);
    if (take == 1) gemm_columns<1, kInit, kAbsorb>(rows, depth, a, b_n, b.stride, c_n, c.stride, factor_n);
    n += take;
  }
}

/// C (rows x vecs vectors) from A (rows x depth) and B (depth x vecs vectors). `rows` is a multiple of kRowAlign.
template <Init kInit>
HWY_INLINE void gemm(std::int64_t rows, std::int64_t vecs, std::int64_t depth, Operand a, Matrix b, Matrix c,
                     const float* factor = nullptr, bool absorb = false) {
  if (absorb) {
    gemm_absorb<kInit, true>(rows, vecs, depth, a, b, c, factor);
  } else {
    gemm_absorb<kInit, false>(rows, vecs, depth, a, b, c, factor);
  }
}

}  // namespace splitq::cpu::SPLITQ_ISA
HWY_AFTER_NAMESPACE();
