// Aligned memory that frees itself, and filling of strided tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "cpu/arena.hpp"
#include "tensor/element.hpp"

namespace splitq::cpu {

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};
using Memory = std::unique_ptr<std::byte, Free>;

/// Uninitialised memory for an arena; throws std::bad_alloc.
inline Memory allocate(std::size_t bytes) {
  const std::size_t size = (bytes + Arena::kAlign - 1) / Arena::kAlign * Arena::kAlign;
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(Arena::kAlign, size == 0 ? Arena::kAlign : size)));
  if (!memory) throw std::bad_alloc();
  return memory;
}

/// Sets every element.
inline void fill(const TensorView& view, float value) {
  if (view.size() == 0) return;
  const std::int64_t inner = view.shape[view.rank - 1];
  const std::int64_t stride = view.strides[view.rank - 1];
  with_storage_type(view.dtype, [&](auto x) {
    const auto element = from_float<decltype(x)>(value);
    const std::int64_t outer = view.size() / inner;
    for (std::int64_t i = 0; i < outer; ++i) {
      auto* to = static_cast<decltype(x)*>(view.data);
      std::int64_t rest = i;
      for (int d = view.rank - 2; d >= 0; --d) {
        to += rest % view.shape[d] * view.strides[d];
        rest /= view.shape[d];
      }
      for (std::int64_t d = 0; d < inner; ++d) to[d * stride] = element;
    }
  });
}

}  // namespace splitq::cpu
