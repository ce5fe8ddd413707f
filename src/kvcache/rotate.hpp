// One head of one token, rotated or copied.
#pragma once

#include "problem/problem.hpp"
#include "problem/shape.hpp"

namespace splitq::kvcache {

/// cos and sin are (positions, R/2) of one type, fp32 or that of `x`; R fits `width`, the head size of `x`.
Status check_rotary(const Rotary& rotary, const char* x_name, const TensorView& x, std::int64_t width);

/// Positions first .. first + count - 1 stand in the tables. `what` names the argument that `first` comes from.
Status check_positions(const Rotary& rotary, const char* what, std::int64_t b, std::int64_t first, std::int64_t count);

/// Heads of one token: (heads, width), any strides.
struct Token {
  std::byte* data = nullptr;
  std::int64_t head_stride = 0, stride = 0;  // in elements
};
Token token(const TensorView& x, std::int64_t i, std::int64_t j);

/// out = x, bit for bit. The type may be any of the floating-point ones.
void copy(DType dtype, std::int64_t heads, std::int64_t width, const Token& x, const Token& out);

/// out = x rotated for `position`; x and out may be the same.
void rotate(DType dtype, std::int64_t heads, std::int64_t width, const Token& x, const Token& out, const Rotary& rotary,
            std::int64_t position);

}  // namespace splitq::kvcache
