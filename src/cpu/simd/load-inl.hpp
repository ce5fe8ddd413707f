// Rows of a tensor of any type and stride into fp32 tiles, and back.
#pragma once

#include "cpu/simd/vector-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace splitq::cpu::SPLITQ_ISA {

inline constexpr std::uint32_t kNotFinite = 0x7F800000;  // bits of infinity; those of a NaN are greater

/// kLanes consecutive elements as fp32.
HWY_INLINE Vec load_vector(const float* p) { return hn::LoadU(kF, p); }
HWY_INLINE Vec load_vector(const Bf16* p) {
  const hn::Rebind<std::uint16_t, F32> d16;
  return hn::BitCast(kF, hn::ShiftLeft<16>(hn::PromoteTo(kU, hn::LoadU(d16, &p->bits))));
}
HWY_INLINE Vec load_vector(const Fp16* p) {
  const hn::Rebind<hwy::float16_t, F32> d16;
  return hn::PromoteTo(kF, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
}

/// Rows first .. first + count - 1 to dst (row-major, `stride` floats apart, stride a multiple of kLanes >= dim), zeros in the
/// columns past dim and the rows up to padded_rows. Returns the largest magnitude's bits: kNotFinite or more if one is not finite.
template <class Storage>
std::uint32_t load_rows_as(const Rows& rows, std::int64_t first, std::int64_t count, std::int64_t dim, float* dst,
                           std::int64_t stride) {
  auto largest = hn::Zero(kU);
  const auto magnitude = hn::Set(kU, 0x7FFFFFFFu);
  for (std::int64_t r = 0; r < count; ++r) {
    const auto* src = reinterpret_cast<const Storage*>(rows.row(first + r));
    float* to = dst + r * stride;
    std::int64_t d = 0;
    if (rows.element_stride == 1) {
      for (; d + kLanes <= dim; d += kLanes) {
        const Vec x = load_vector(src + d);
        largest = hn::Max(largest, hn::And(hn::BitCast(kU, x), magnitude));
        hn::StoreU(x, kF, to + d);
      }
    }
    const std::int64_t tail = d;
    for (; d < dim; ++d) to[d] = to_float(src[d * rows.element_stride]);
    for (; d < stride; ++d) to[d] = 0.0f;
    for (d = tail; d < dim; d += kLanes) {
      largest = hn::Max(largest, hn::And(hn::BitCast(kU, hn::LoadU(kF, to + d)), magnitude));
    }
  }
  return hn::GetLane(hn::MaxOfLanes(kU, largest));
}

inline std::uint32_t load_rows(const Rows& rows, std::int64_t first, std::int64_t count, std::int64_t padded_rows,
                               std::int64_t dim, float* dst, std::int64_t stride) {
  const std::uint32_t largest = with_storage_type(
      rows.dtype, [&](auto x) { return load_rows_as<decltype(x)>(rows, first, count, dim, dst, stride); });
  for (std::int64_t i = count * stride; i < padded_rows * stride; ++i) dst[i] = 0.0f;
  return largest;
}

/// dst[c][r] = factor * src[r][c].
inline void transpose(const float* HWY_RESTRICT src, std::int64_t src_stride, std::int64_t rows, std::int64_t columns,
                      float factor, float* HWY_RESTRICT dst, std::int64_t dst_stride) {
  constexpr std::int64_t kBlock = 16;  // a cache line on either side
  for (std::int64_t r0 = 0; r0 < rows; r0 += kBlock) {
    const std::int64_t r1 = r0 + kBlock < rows ? r0 + kBlock : rows;
    for (std::int64_t c = 0; c < columns; ++c) {
      for (std::int64_t r = r0; r < r1; ++r) dst[c * dst_stride + r] = factor * src[r * src_stride + c];
    }
  }
}

/// dst[d] = factor * src[d] in the tensor's type.
inline void store_row(const Rows& rows, std::int64_t s, const float* HWY_RESTRICT src, std::int64_t dim, float factor) {
  with_storage_type(rows.dtype, [&](auto x) {
    using Storage = decltype(x);
    auto* to = reinterpret_cast<Storage*>(rows.row(s));
    if (rows.element_stride == 1) {
      for (std::int64_t d = 0; d < dim; ++d) to[d] = from_float<Storage>(factor * src[d]);
    } else {
      for (std::int64_t d = 0; d < dim; ++d) to[d * rows.element_stride] = from_float<Storage>(factor * src[d]);
    }
  });
}

}  // namespace splitq::cpu::SPLITQ_ISA
HWY_AFTER_NAMESPACE();
