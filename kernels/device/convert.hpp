// Between fp32 and the 16-bit types. PTX ISA 9.7.9 (cvt): rounding is to nearest, ties to even.
#pragma once

#include "device/entry.hpp"
#include "device/types.hpp"

namespace splitq::device {

SPLITQ_DEVICE u32 as_u32(float x) { return __builtin_bit_cast(u32, x); }
SPLITQ_DEVICE float as_float(u32 x) { return __builtin_bit_cast(float, x); }

/// cvt.rn.f16.f32, cvt.rn.bf16.f32. Before sm_80 there is no cvt to bf16: integers round.
template <class T>
SPLITQ_INSTRUCTION u16 convert(float x) SPLITQ_PTX({
  u16 y;
  if constexpr (kSame<T, Fp16>) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  } else if constexpr (kHasBf16) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  } else {
    const u32 bits = as_u32(x);
    y = x != x ? 0x7FFF : static_cast<u16>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
  return y;
});

/// cvt.f32.f16; a bf16 is the upper half of an fp32.
template <class T>
SPLITQ_INSTRUCTION float to_float(u16 x) SPLITQ_PTX({
  if constexpr (kSame<T, Fp16>) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
  } else {
    return as_float(static_cast<u32>(x) << 16);
  }
});

/// cvt.rn.f16x2.f32, cvt.rn.bf16x2.f32: `low` into the lower half.
template <class T>
SPLITQ_INSTRUCTION u32 pack(float low, float high) SPLITQ_PTX({
  if constexpr (kArchitecture < 800) {
    return convert<T>(low) | static_cast<u32>(convert<T>(high)) << 16;
  } else {
    u32 y;
    if constexpr (kSame<T, Fp16>) {
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    } else {
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    }
    return y;
  }
});

template <class T>
SPLITQ_DEVICE float unpack_low(u32 x) {
  return to_float<T>(static_cast<u16>(x));
}
template <class T>
SPLITQ_DEVICE float unpack_high(u32 x) {
  return to_float<T>(static_cast<u16>(x >> 16));
}

}  // namespace splitq::device
