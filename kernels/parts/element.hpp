// Elements of any type in global memory, as fp32.
#pragma once

#include "device/convert.hpp"
#include "device/memory.hpp"
#include "shared/element.hpp"

namespace splitq::parts {

using namespace splitq::device;

/// The 16-bit types, as device code tells them apart.
template <Element kElement>
using HalfType = Select<kElement == Element::kFp16, Fp16, Bf16>;

template <Element kElement>
SPLITQ_DEVICE float load_element(const void* data, i64 at) {
  if constexpr (kElement == Element::kFp32) {
    return ld_global(static_cast<const float*>(data) + at);
  } else {
    return to_float<HalfType<kElement>>(ld_global(static_cast<const u16*>(data) + at));
  }
}

template <Element kElement>
SPLITQ_DEVICE void store_element(void* data, i64 at, float value) {
  if constexpr (kElement == Element::kFp32) {
    st_global(static_cast<float*>(data) + at, value);
  } else {
    st_global(static_cast<u16*>(data) + at, convert<HalfType<kElement>>(value));
  }
}

SPLITQ_DEVICE float magnitude(float x) { return as_float(as_u32(x) & 0x7FFFFFFFu); }
SPLITQ_DEVICE bool finite(float x) { return (as_u32(x) & 0x7F800000u) != 0x7F800000u; }

}  // namespace splitq::parts
