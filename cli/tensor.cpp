#include "tensor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "convert.hpp"

namespace splitq::cli {
namespace {

struct Accepted {
  std::array<npy::Type, 3> types;
  std::size_t count;
};

constexpr Accepted accepted(Content content) {
  using npy::Type;
  switch (content) {
    case Content::kReal:
      return {{Type::kFloat16, Type::kFloat32, Type::kFloat64}, 3};
    case Content::kIndex:
      return {{Type::kInt32, Type::kInt64}, 2};
    case Content::kBool:
      break;
  }
  return {{Type::kBool}, 1};
}

DType dtype_of(npy::Type type) {
  switch (type) {
    case npy::Type::kFloat16:
      return DType::kFp16;
    case npy::Type::kInt32:
      return DType::kInt32;
    case npy::Type::kInt64:
      return DType::kInt64;
    case npy::Type::kBool:
      return DType::kBool;
    case npy::Type::kFloat32:
    case npy::Type::kFloat64:
      break;
  }
  return DType::kFp32;
}

}  // namespace

bool contiguous_view(void* data, DType dtype, std::span<const std::int64_t> shape, TensorView* view,
                     std::int64_t* bytes) {
  *view = {.data = data, .dtype = dtype, .rank = static_cast<int>(shape.size())};
  std::ranges::copy(shape, view->shape.begin());
  // An extent of 0 counts as 1 in strides, as NumPy has it.
  std::int64_t step = 1;
  bool overflow = false;
  for (std::size_t d = shape.size(); d-- > 0;) {
    view->strides[d] = step;
    overflow |= __builtin_mul_overflow(step, std::max<std::int64_t>(shape[d], 1), &step);
  }
  overflow |= __builtin_mul_overflow(step, static_cast<std::int64_t>(size_of(dtype)), bytes);
  if (std::ranges::find(shape, 0) != shape.end()) *bytes = 0;
  return !overflow;
}

Tensor make_tensor(const std::string& argument, DType dtype, std::span<const std::int64_t> shape) {
  Tensor tensor;
  std::int64_t bytes = 0;
  try {
    if (!contiguous_view(nullptr, dtype, shape, &tensor.view, &bytes)) throw std::bad_alloc();
    tensor.buffer = Buffer(static_cast<std::size_t>(bytes));
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format("{}: a result of shape ({}) does not fit into memory", argument, fmt::join(shape, ", ")));
  }
  tensor.view.data = tensor.buffer.data();
  return tensor;
}

Tensor load_tensor(const std::string& argument, const std::string& path, Content content, std::optional<DType> dtype) {
  try {
    npy::Array array = npy::read(path);
    const npy::Header& header = array.header;
    const Accepted want = accepted(content);
    const auto types = std::span(want.types).first(want.count);
    if (std::ranges::find(types, header.type) == types.end()) {
      std::vector<const char*> names;
      for (const npy::Type type : types) names.push_back(npy::name_of(type));
      throw npy::Error(fmt::format("holds {}; it may hold {}", npy::name_of(header.type), fmt::join(names, ", ")));
    }
    const std::size_t rank = header.shape.size();
    if (rank < 1 || rank > kMaxRank) {
      throw npy::Error(fmt::format("has {} dimensions; it may have 1 to {}", rank, kMaxRank));
    }

    Tensor tensor;
    tensor.view.dtype = content == Content::kReal && dtype ? *dtype : dtype_of(header.type);
    tensor.view.rank = static_cast<int>(rank);
    std::ranges::copy(header.shape, tensor.view.shape.begin());
    std::ranges::copy(header.strides(), tensor.view.strides.begin());
    tensor.buffer = content == Content::kReal ? to_dtype(std::move(array.data), header.type, tensor.view.dtype)
                                              : std::move(array.data);
    if (content == Content::kBool) {
      // Any byte but 0 is true to NumPy; a C++ bool knows 0 and 1 alone.
      for (std::byte& b : std::span(tensor.buffer.data(), tensor.buffer.size())) b = std::byte{b != std::byte{0}};
    }
    tensor.view.data = tensor.buffer.data();
    return tensor;
  } catch (const npy::Error& error) {
    throw Error(fmt::format("{} '{}': {}", argument, path, error.what()));
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format("{} '{}': does not fit into memory", argument, path));
  }
}

npy::Type file_type(DType dtype) { return dtype == DType::kFp16 ? npy::Type::kFloat16 : npy::Type::kFloat32; }

Buffer to_file(Tensor tensor) {
  return tensor.view.dtype == DType::kBf16 ? to_fp32(std::move(tensor.buffer), DType::kBf16) : std::move(tensor.buffer);
}

}  // namespace splitq::cli
