// Conversions between the element types of files and of tensors. Everything goes through fp32: fp64 is rounded to
// fp32 first. Rounding is to the nearest, ties to even; what is too large becomes infinite; NaN stays NaN.
#pragma once

#include <cstdint>

#include "buffer.hpp"
#include "npy.hpp"
#include "splitq/splitq.hpp"

namespace splitq::cli {

std::uint16_t fp16_from_fp32(float x);
float fp32_from_fp16(std::uint16_t bits);
std::uint16_t bf16_from_fp32(float x);
float fp32_from_bf16(std::uint16_t bits);

/// Elements of a real type from a file, as the tensor's type: fp32, fp16 or bf16.
Buffer to_dtype(Buffer data, npy::Type from, DType to);

/// Elements of a tensor as fp32.
Buffer to_fp32(Buffer data, DType from);

}  // namespace splitq::cli
