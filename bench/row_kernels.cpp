#include "bench/row_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/row_kernels.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace splitq::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

/// Calls step(mask_or_not, i) for every vector of n elements: body(i) for whole ones, tail(i, mask) for the rest.
template <class Body, class Tail>
HWY_INLINE void for_vectors(std::int64_t n, Body&& body, Tail&& tail) {
  const D d;
  const auto lanes = std::int64_t(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(i);
  if (i < n) tail(i, hn::FirstN(d, std::size_t(n - i)));
}

/// 2^x for x <= 0, relative error 2e-7: exponent by integer arithmetic, fraction by its Taylor series.
HWY_INLINE V exp2_negative(D d, V x) {
  const hn::RebindToSigned<D> di;
  x = hn::Max(x, hn::Set(d, -126.0f));
  const V n = hn::Round(x);
  const V f = hn::Sub(x, n);
  V p = hn::Set(d, 1.5403530e-4f);
  p = hn::MulAdd(p, f, hn::Set(d, 1.3333558e-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 9.6181291e-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 5.5504109e-2f));
  p = hn::MulAdd(p, f, hn::Set(d, 2.4022651e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 6.9314718e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::ConvertTo(di, n))));
}

float row_max(const float* row, std::int64_t n) {
  const D d;
  const V lowest = hn::Set(d, std::numeric_limits<float>::lowest());
  V even = lowest, odd = lowest;
  bool flip = false;
  for_vectors(
      n,
      [&](std::int64_t i) {
        V& m = (flip = !flip) ? even : odd;
        m = hn::Max(m, hn::LoadU(d, row + i));
      },
      [&](std::int64_t i, auto mask) {
        even = hn::Max(even, hn::IfThenElse(mask, hn::MaskedLoad(mask, d, row + i), lowest));
      });
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(even, odd)));
}

void softmax_rows(float* scores, std::int64_t rows, std::int64_t columns, std::int64_t ld, std::int64_t visible,
                  float scale, float* inverse_sum, float* lse) {
  const D d;
  const float to_log2 = scale * 1.44269504f;
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = scores + r * ld;
    const std::int64_t n = std::clamp<std::int64_t>(visible + r, 0, columns);
    const float largest = row_max(row, n);
    const V factor = hn::Set(d, to_log2), shift = hn::Set(d, -largest * to_log2);
    V sum = hn::Zero(d);
    for_vectors(
        n,
        [&](std::int64_t i) {
          const V p = exp2_negative(d, hn::MulAdd(hn::LoadU(d, row + i), factor, shift));
          sum = hn::Add(sum, p);
          hn::StoreU(p, d, row + i);
        },
        [&](std::int64_t i, auto mask) {
          const V x = hn::MulAdd(hn::MaskedLoad(mask, d, row + i), factor, shift);
          const V p = hn::IfThenElseZero(mask, exp2_negative(d, hn::Min(x, hn::Zero(d))));
          sum = hn::Add(sum, p);
          hn::BlendedStore(p, mask, d, row + i);
        });
    std::fill(row + n, row + columns, 0.0f);
    const float total = hn::GetLane(hn::SumOfLanes(d, sum));
    inverse_sum[r] = n > 0 ? 1.0f / total : 0.0f;
    lse[r] = n > 0 ? largest * scale + std::log(total) : -std::numeric_limits<float>::infinity();
  }
}

void scale_rows(float* matrix, std::int64_t rows, std::int64_t columns, std::int64_t ld, const float* factor) {
  const D d;
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = matrix + r * ld;
    const V f = hn::Set(d, factor[r]);
    for_vectors(
        columns, [&](std::int64_t i) { hn::StoreU(hn::Mul(f, hn::LoadU(d, row + i)), d, row + i); },
        [&](std::int64_t i, auto mask) {
          hn::BlendedStore(hn::Mul(f, hn::MaskedLoad(mask, d, row + i)), mask, d, row + i);
        });
  }
}

void softmax_backward_rows(float* ds, const float* p, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                           const float* delta, float scale) {
  const D d;
  const V factor = hn::Set(d, scale);
  for (std::int64_t r = 0; r < rows; ++r) {
    float* ds_row = ds + r * ld;
    const float* p_row = p + r * ld;
    const V shift = hn::Set(d, delta[r]);
    for_vectors(
        columns,
        [&](std::int64_t i) {
          const V x = hn::Sub(hn::LoadU(d, ds_row + i), shift);
          hn::StoreU(hn::Mul(hn::Mul(x, factor), hn::LoadU(d, p_row + i)), d, ds_row + i);
        },
        [&](std::int64_t i, auto mask) {
          const V x = hn::Sub(hn::MaskedLoad(mask, d, ds_row + i), shift);
          hn::BlendedStore(hn::Mul(hn::Mul(x, factor), hn::MaskedLoad(mask, d, p_row + i)), mask, d, ds_row + i);
        });
  }
}

float dot(const float* a, const float* b, std::int64_t n) {
  const D d;
  V sum = hn::Zero(d);
  for_vectors(
      n, [&](std::int64_t i) { sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum); },
      [&](std::int64_t i, auto mask) {
        sum = hn::MulAdd(hn::MaskedLoad(mask, d, a + i), hn::MaskedLoad(mask, d, b + i), sum);
      });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// Runs convert(source, target) on whole vectors, the last one through a padded copy.
template <class Source, class Target, class Convert>
HWY_INLINE void convert_all(const Source* source, Target* target, std::int64_t n, Convert&& convert) {
  const auto lanes = std::int64_t(hn::Lanes(D()));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) convert(source + i, target + i);
  if (i == n) return;
  Source from[hn::MaxLanes(D())] = {};
  Target to[hn::MaxLanes(D())];
  std::copy(source + i, source + n, from);
  convert(from, to);
  std::copy(to, to + (n - i), target + i);
}

void bf16_to_float(const std::uint16_t* source, float* target, std::int64_t n) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint16_t, D> du16;
  convert_all(source, target, n, [&](const std::uint16_t* s, float* t) {
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(du16, s)))), d, t);
  });
}

void float_to_bf16(const float* source, std::uint16_t* target, std::int64_t n) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint16_t, D> du16;
  convert_all(source, target, n, [&](const float* s, std::uint16_t* t) {
    const auto bits = hn::BitCast(du, hn::LoadU(d, s));  // to nearest, ties to even
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF)));
    hn::StoreU(hn::TruncateTo(du16, hn::ShiftRight<16>(rounded)), du16, t);
  });
}

void fp16_to_float(const std::uint16_t* source, float* target, std::int64_t n) {
  const D d;
  const hn::Rebind<hwy::float16_t, D> dh;
  convert_all(source, target, n, [&](const std::uint16_t* s, float* t) {
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(s))), d, t);
  });
}

void float_to_fp16(const float* source, std::uint16_t* target, std::int64_t n) {
  const D d;
  const hn::Rebind<hwy::float16_t, D> dh;
  convert_all(source, target, n, [&](const float* s, std::uint16_t* t) {
    hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, s)), dh, reinterpret_cast<hwy::float16_t*>(t));
  });
}

std::uint64_t read_all(const std::byte* data, std::size_t bytes) {
  const hn::ScalableTag<std::uint64_t> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto* p = reinterpret_cast<const std::uint64_t*>(data);
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (std::size_t i = 0; i < bytes / sizeof(*p); i += 4 * lanes) {
    a = hn::Xor(a, hn::Load(d, p + i));
    b = hn::Xor(b, hn::Load(d, p + i + lanes));
    c = hn::Xor(c, hn::Load(d, p + i + 2 * lanes));
    e = hn::Xor(e, hn::Load(d, p + i + 3 * lanes));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Xor(hn::Xor(a, b), hn::Xor(c, e))));
}

}  // namespace splitq::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace splitq::bench {

HWY_EXPORT(softmax_rows);
HWY_EXPORT(scale_rows);
HWY_EXPORT(softmax_backward_rows);
HWY_EXPORT(dot);
HWY_EXPORT(bf16_to_float);
HWY_EXPORT(float_to_bf16);
HWY_EXPORT(fp16_to_float);
HWY_EXPORT(float_to_fp16);
HWY_EXPORT(read_all);

void softmax_rows(float* scores, std::int64_t rows, std::int64_t columns, std::int64_t ld, std::int64_t visible,
                  float scale, float* inverse_sum, float* lse) {
  HWY_DYNAMIC_DISPATCH(softmax_rows)(scores, rows, columns, ld, visible, scale, inverse_sum, lse);
}

void scale_rows(float* matrix, std::int64_t rows, std::int64_t columns, std::int64_t ld, const float* factor) {
  HWY_DYNAMIC_DISPATCH(scale_rows)(matrix, rows, columns, ld, factor);
}

void softmax_backward_rows(float* ds, const float* p, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                           const float* delta, float scale) {
  HWY_DYNAMIC_DISPATCH(softmax_backward_rows)(ds, p, rows, columns, ld, delta, scale);
}

float dot(const float* a, const float* b, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(dot)(a, b, n); }

void to_float(const void* source, DType dtype, float* target, std::int64_t n) {
  const auto* half = static_cast<const std::uint16_t*>(source);
  if (dtype == DType::kFp32)
    std::memcpy(target, source, std::size_t(n) * sizeof(float));
  else if (dtype == DType::kBf16)
    HWY_DYNAMIC_DISPATCH(bf16_to_float)(half, target, n);
  else
    HWY_DYNAMIC_DISPATCH(fp16_to_float)(half, target, n);
}

void from_float(const float* source, void* target, DType dtype, std::int64_t n) {
  auto* half = static_cast<std::uint16_t*>(target);
  if (dtype == DType::kFp32)
    std::memcpy(target, source, std::size_t(n) * sizeof(float));
  else if (dtype == DType::kBf16)
    HWY_DYNAMIC_DISPATCH(float_to_bf16)(source, half, n);
  else
    HWY_DYNAMIC_DISPATCH(float_to_fp16)(source, half, n);
}

std::uint64_t read_all(const std::byte* data, std::size_t bytes) { return HWY_DYNAMIC_DISPATCH(read_all)(data, bytes); }

}  // namespace splitq::bench
#endif  // HWY_ONCE
