// Per instruction set: the vector type and the few functions that Highway does not have.
// Included once per instruction set, by the file named after it (avx3.cpp, ...): no include guard spans two of them.
#pragma once

#include <hwy/highway.h>

#include <cstdint>

#ifndef SPLITQ_ISA
#error "include from a file that names its instruction set"
#endif

// Instructions that Highway's target does not imply: everything of this instruction set is compiled with them.
#ifdef SPLITQ_NATIVE_BF16_DOT
#undef HWY_TARGET_STR
#define HWY_TARGET_STR HWY_TARGET_STR_AVX3 ",avx512bf16"
#endif

HWY_BEFORE_NAMESPACE();
namespace splitq::cpu::SPLITQ_ISA {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using I32 = hn::RebindToSigned<F32>;
using U32 = hn::RebindToUnsigned<F32>;
using Vec = hn::Vec<F32>;
inline constexpr F32 kF{};
inline constexpr I32 kI{};
inline constexpr U32 kU{};
inline constexpr std::int64_t kLanes = HWY_LANES(float);

// Register tile of the matrix product: kTileRows x (kTileVecs vectors) accumulators, with room for one row of B and a
// broadcast of A. 24 + 3 + 1 of 32 registers, or 12 + 3 + 1 of 16.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
inline constexpr int kTileRows = 8;
#else
inline constexpr int kTileRows = 4;
#endif
inline constexpr int kTileVecs = 3;
inline constexpr int kRowAlign = 8;  // rows of A are padded to this in every instruction set

/// 2^x for x <= 0 (and a few above); exactly 0 for -inf, NaN stays NaN, and what is below 2^-126 may be flushed to 0.
/// Range reduction to [-1/2, 1/2] and a minimax polynomial of degree 5, relative error 1.4e-7 with rounding.
HWY_INLINE Vec exp2_nonpositive(Vec x) {
#if HWY_TARGET == HWY_AVX3
  x = hn::Max(hn::Set(kF, -200.0f), x);  // the constant first: where x is NaN, max returns its second operand
  const Vec n = hn::Round(x);
#else
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: the sum's last bits are the rounded integer
  const Vec shifted = hn::Add(x, hn::Set(kF, kMagic));
  const Vec n = hn::Sub(shifted, hn::Set(kF, kMagic));
#endif
  const Vec f = hn::Sub(x, n);
  Vec p = hn::MulAdd(hn::Set(kF, 0.0013276472632f), f, hn::Set(kF, 0.00967554134312f));
  p = hn::MulAdd(p, f, hn::Set(kF, 0.0555071327186f));
  p = hn::MulAdd(p, f, hn::Set(kF, 0.240221197237f));
  p = hn::MulAdd(p, f, hn::Set(kF, 0.693146967065f));
  p = hn::MulAdd(p, f, hn::Set(kF, 1.0f));
#if HWY_TARGET == HWY_AVX3
  return Vec{_mm512_scalef_ps(p.raw, n.raw)};
#else
  const auto exponent = hn::Add(hn::ShiftLeft<23>(hn::BitCast(kI, shifted)), hn::Set(kI, 127 << 23));
  const Vec scaled = hn::Mul(p, hn::BitCast(kF, exponent));  // a product, so that NaN stays NaN
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(kF, -126.0f)), scaled);
#endif
}

/// tanh, by exp2 of a non-positive number; small arguments by the series' first terms, where the quotient would lose digits.
HWY_INLINE Vec tanh(Vec x) {
  const Vec a = hn::Abs(x);
  const Vec e = exp2_nonpositive(hn::Mul(a, hn::Set(kF, -2.8853900817779268f)));  // exp(-2a)
  const Vec large = hn::Div(hn::Sub(hn::Set(kF, 1.0f), e), hn::Add(hn::Set(kF, 1.0f), e));
  const Vec s = hn::Mul(x, x);
  Vec series = hn::MulAdd(s, hn::Set(kF, -17.0f / 315.0f), hn::Set(kF, 2.0f / 15.0f));
  series = hn::MulAdd(s, series, hn::Set(kF, -1.0f / 3.0f));
  series = hn::MulAdd(hn::Mul(s, a), series, a);
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, hn::Set(kF, 0.15f)), series, large), x);
}

}  // namespace splitq::cpu::SPLITQ_ISA
HWY_AFTER_NAMESPACE();
