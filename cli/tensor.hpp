// Tensors of the command line: memory that is owned, the library's view of it, and the way from and to .npy files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "buffer.hpp"
#include "npy.hpp"
#include "splitq/splitq.hpp"

namespace splitq::cli {

/// Bad input. The message begins with the argument's name.
class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Tensor {
  Buffer buffer;
  TensorView view{};
};

/// The row-major view of `data`. *bytes is what it spans; false where that is more than an int64 can count.
bool contiguous_view(void* data, DType dtype, std::span<const std::int64_t> shape, TensorView* view,
                     std::int64_t* bytes);

/// Row-major, not initialised. `argument` is named if it cannot be had.
Tensor make_tensor(const std::string& argument, DType dtype, std::span<const std::int64_t> shape);

/// What an argument's file may hold.
enum class Content { kReal, kIndex, kBool };

/// Reads a file. Real numbers become `dtype`; without one they stay what they are, float64 becoming fp32.
Tensor load_tensor(const std::string& argument, const std::string& path, Content content,
                   std::optional<DType> dtype = {});

/// The type that a tensor has in a .npy file, which knows no bf16: float32 holds every bf16 exactly.
npy::Type file_type(DType dtype);

/// Elements of a tensor from make_tensor() as a file has them.
Buffer to_file(Tensor tensor);

}  // namespace splitq::cli
