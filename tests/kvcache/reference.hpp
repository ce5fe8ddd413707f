// Rotary embedding in double, from the definition: the pair (x_a, x_b) turned by an angle.
#pragma once

#include "kvcache/array.hpp"

namespace splitq::testing {

inline double rotated(const Array& x, Array::Index i, const Array& cos, const Array& sin, bool interleaved,
                      std::int64_t position) {
  const std::int64_t half = cos.view().shape[1], d = i[3];
  if (d >= 2 * half) return x.get(i);
  const std::int64_t r = interleaved ? d / 2 : d % half;
  const bool is_first = interleaved ? d % 2 == 0 : d < half;
  Array::Index a = i, b = i;
  a[3] = interleaved ? 2 * r : r;
  b[3] = interleaved ? 2 * r + 1 : r + half;
  const double c = cos.get({position, r}), s = sin.get({position, r});
  return is_first ? x.get(a) * c - x.get(b) * s : x.get(a) * s + x.get(b) * c;
}

/// Half a unit in the last place of the type at 4 (the largest |x cos| + |x sin| here is below 4 sqrt 2), and fp32's own.
inline double rotary_tolerance(DType dtype) {
  return dtype == DType::kFp32 ? 2e-6 : dtype == DType::kFp16 ? 0x1p-9 + 2e-6 : 0x1p-6 + 2e-6;
}

}  // namespace splitq::testing
