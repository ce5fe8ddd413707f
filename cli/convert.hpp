// Conversions between the element types of files and of tensors. Everything goes through fp32: fp64 is rounded to
// fp32 first.
#pragma once

#include "buffer.hpp"
#include "npy.hpp"
#include "splitq/splitq.hpp"

namespace splitq::cli {

/// Elements of a real type from a file, as the tensor's type: fp32, fp16 or bf16.
Buffer to_dtype(Buffer data, npy::Type from, DType to);

/// Elements of a tensor as fp32.
Buffer to_fp32(Buffer data, DType from);

}  // namespace splitq::cli
