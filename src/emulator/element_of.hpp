// The device layer's 16-bit types by way of the library's own conversions.
#pragma once

#include <type_traits>

#include "device/types.hpp"
#include "tensor/element.hpp"

namespace splitq::emulator {

template <class T>
using Element = std::conditional_t<std::is_same_v<T, device::Fp16>, splitq::Fp16, splitq::Bf16>;

template <class T>
float element_to_float(device::u16 bits) {
  return to_float(Element<T>{bits});
}
template <class T>
device::u16 element_from_float(float x) {
  return from_float<Element<T>>(x).bits;
}

}  // namespace splitq::emulator
