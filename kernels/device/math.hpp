// Arithmetic whose instruction matters. PTX ISA 9.7.3 (floating point), 9.7.1 (integer).
#pragma once

#include "device/entry.hpp"
#include "device/types.hpp"

namespace splitq::device {

/// ex2.approx.ftz.f32: 2^x; subnormal results are 0, ex2(-inf) = 0.
SPLITQ_INSTRUCTION float ex2_approx_ftz(float x) SPLITQ_PTX({
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
});

/// lg2.approx.f32: log2 x; lg2(0) = -inf.
SPLITQ_INSTRUCTION float lg2_approx(float x) SPLITQ_PTX({
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
});

/// rcp.approx.f32: 1 / x within 1 ulp.
SPLITQ_INSTRUCTION float rcp_approx(float x) SPLITQ_PTX({
  float y;
  asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
});

/// fma.rn.f32: a b + c, rounded once.
SPLITQ_INSTRUCTION float fma_rn(float a, float b, float c) SPLITQ_PTX({
  float d;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
  return d;
});

/// max.f32, min.f32: where one operand is NaN, the other.
SPLITQ_INSTRUCTION float max(float a, float b) SPLITQ_PTX({
  float c;
  asm("max.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
});
SPLITQ_INSTRUCTION float min(float a, float b) SPLITQ_PTX({
  float c;
  asm("min.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
});

/// mul.wide.u32 and mul.hi.u32: the compiler finds them.
SPLITQ_DEVICE constexpr u64 mul_wide_u32(u32 a, u32 b) { return static_cast<u64>(a) * b; }
SPLITQ_DEVICE constexpr u32 mul_hi_u32(u32 a, u32 b) { return static_cast<u32>(mul_wide_u32(a, b) >> 32); }

}  // namespace splitq::device
