// Rotary embedding of one head (Su et al., RoFormer, eq. 34): pairs of elements are rotated by the position's angles.
#pragma once

#include "oracle/array.hpp"

namespace oracle {

/// cos, sin: (positions, R/2). Rotates the first R elements of x[row, head, :].
inline void rotate(Array& x, std::int64_t row, std::int64_t head, const Array& cos, const Array& sin,
                   std::int64_t position, bool interleaved) {
  const std::int64_t half = cos.shape[1];
  for (std::int64_t r = 0; r < half; ++r) {
    double& a = x(row, head, interleaved ? 2 * r : r);
    double& b = x(row, head, interleaved ? 2 * r + 1 : r + half);
    const double c = cos(position, r), s = sin(position, r);
    const double a0 = a, b0 = b;
    a = a0 * c - b0 * s;
    b = a0 * s + b0 * c;
  }
}

}  // namespace oracle
