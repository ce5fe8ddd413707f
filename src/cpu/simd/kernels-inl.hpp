// All kernels of one instruction set, as a table.
#pragma once

#include <algorithm>

#include "cpu/simd/backward-inl.hpp"
#include "cpu/simd/decode-inl.hpp"
#include "cpu/simd/forward-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace splitq::cpu::SPLITQ_ISA {

inline void convert_rows(const Rows& from, const Rows& to, std::int64_t count, std::int64_t dim) {
  for (std::int64_t r = 0; r < count; ++r) store_row(to, r, reinterpret_cast<const float*>(from.row(r)), dim, 1.0f);
}

inline std::size_t scratch_bytes(const Problem& problem, const CpuPlan& plan) {
  if (problem.direction == Direction::kBackward) {
    Arena arena;
    BackwardScratch().layout(arena, problem, plan);
    return arena.used();
  }
  Arena tile;
  ForwardScratch().layout(tile, problem, plan);
#if HWY_TARGET != HWY_SCALAR
  Arena few;
  DecodeScratch().layout(few, problem, plan);
  return std::max(tile.used(), few.used());
#else
  return tile.used();
#endif
}

}  // namespace splitq::cpu::SPLITQ_ISA
HWY_AFTER_NAMESPACE();

#define SPLITQ_TEXT_OF(x) #x
#define SPLITQ_TEXT(x) SPLITQ_TEXT_OF(x)
#define SPLITQ_JOIN_OF(a, b) a##b
#define SPLITQ_JOIN(a, b) SPLITQ_JOIN_OF(a, b)

namespace splitq::cpu {

/// kernels_avx3(), ...
extern const Kernels& SPLITQ_JOIN(kernels_, SPLITQ_ISA)() {
  using namespace SPLITQ_ISA;
  static const Kernels kernels{SPLITQ_TEXT(SPLITQ_ISA), kLanes, forward,  decode,       pack,
                               packed_floats,           merge,  backward, convert_rows, scratch_bytes};
  return kernels;
}

}  // namespace splitq::cpu
