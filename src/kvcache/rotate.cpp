#include "kvcache/rotate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "problem/names.hpp"
#include "tensor/element.hpp"

namespace splitq::kvcache {

Status check_rotary(const Rotary& rotary, const char* x_name, const TensorView& x, std::int64_t width) {
  for (const auto& [name, view] : {std::pair{"cos", &rotary.cos}, std::pair{"sin", &rotary.sin}}) {
    if (!view->given())
      return Status::invalid(fmt::format("{}: not given; must come with the other of cos and sin", name));
  }
  SPLITQ_TRY(match_fp32_or("cos", info(rotary.cos), x.dtype, x_name));
  SPLITQ_TRY(match_type("sin", info(rotary.sin), {rotary.cos.dtype}, ", the type of cos"));
  Extent positions{"positions"}, half{"R/2"};
  SPLITQ_TRY(match("cos", info(rotary.cos), {{positions, half}}));
  SPLITQ_TRY(match("sin", info(rotary.sin), {{positions, half}}));
  if (half.value > width / 2) {
    return Status::invalid(fmt::format("cos: shape {}; must have at most {} columns, half the head size {} of {}",
                                       shape_string(info(rotary.cos)), width / 2, width, x_name));
  }
  return {};
}

Status check_positions(const Rotary& rotary, const char* what, std::int64_t b, std::int64_t first, std::int64_t count) {
  const std::int64_t positions = rotary.cos.shape[0];
  if (count == 0 || (first >= 0 && first <= positions - count)) return {};
  return Status::invalid(
      fmt::format("{}[{}]: {}, with {} tokens behind it; must be from 0 to {}, as cos and sin have {} "
                  "positions",
                  what, b, first, count, positions - count, positions));
}

Token token(const TensorView& x, std::int64_t i, std::int64_t j) {
  const std::int64_t at = i * x.strides[0] + j * x.strides[1];
  return {static_cast<std::byte*>(x.data) + at * static_cast<std::int64_t>(size_of(x.dtype)), x.strides[2],
          x.strides[3]};
}

void copy(DType dtype, std::int64_t heads, std::int64_t width, const Token& x, const Token& out) {
  with_storage_type(dtype, [&]<class T>(T) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const T* from = reinterpret_cast<const T*>(x.data) + h * x.head_stride;
      T* to = reinterpret_cast<T*>(out.data) + h * out.head_stride;
      for (std::int64_t d = 0; d < width; ++d) to[d * out.stride] = from[d * x.stride];
    }
  });
}

namespace {

template <class T>
void rotate_head(const T* x, std::int64_t x_stride, T* out, std::int64_t out_stride, std::int64_t width,
                 const float* cos, const float* sin, std::int64_t half, bool interleaved) {
  for (std::int64_t r = 0; r < half; ++r) {
    const std::int64_t first = interleaved ? 2 * r : r, second = interleaved ? 2 * r + 1 : r + half;
    const float a = to_float(x[first * x_stride]), b = to_float(x[second * x_stride]);
    out[first * out_stride] = from_float<T>(a * cos[r] - b * sin[r]);
    out[second * out_stride] = from_float<T>(a * sin[r] + b * cos[r]);
  }
  for (std::int64_t d = 2 * half; d < width; ++d) out[d * out_stride] = x[d * x_stride];
}

}  // namespace

void rotate(DType dtype, std::int64_t heads, std::int64_t width, const Token& x, const Token& out, const Rotary& rotary,
            std::int64_t position) {
  const std::int64_t half = rotary.cos.shape[1];
  std::vector<float> table(static_cast<std::size_t>(2 * half));  // this position's cosines, then its sines
  auto load = [&](const TensorView& t, float* to) {
    with_storage_type(t.dtype, [&]<class T>(T) {
      const T* row = static_cast<const T*>(t.data) + position * t.strides[0];
      for (std::int64_t r = 0; r < half; ++r) to[r] = to_float(row[r * t.strides[1]]);
    });
  };
  load(rotary.cos, table.data());
  load(rotary.sin, table.data() + half);
  with_storage_type(dtype, [&]<class T>(T) {
    for (std::int64_t h = 0; h < heads; ++h) {
      rotate_head(reinterpret_cast<const T*>(x.data) + h * x.head_stride, x.stride,
                  reinterpret_cast<T*>(out.data) + h * out.head_stride, out.stride, width, table.data(),
                  table.data() + half, half, rotary.interleaved);
    }
  });
}

}  // namespace splitq::kvcache
