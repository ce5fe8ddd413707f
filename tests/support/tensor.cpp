#include "support/tensor.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "oracle/number.hpp"

namespace splitq::testing {
namespace {

constexpr std::byte kPoison{0xFF};
constexpr std::size_t kGuardBytes = 256;

/// The dimensions from the outermost in memory to the innermost.
std::vector<int> memory_order(int rank, Layout layout) {
  std::vector<int> order(rank);
  std::iota(order.begin(), order.end(), 0);
  if (layout == Layout::kHeadsFirst && rank >= 3) std::swap(order[rank - 2], order[rank - 3]);
  if (layout == Layout::kTransposed && rank >= 3) std::swap(order[rank - 1], order[rank - 3]);
  if (layout == Layout::kTransposed && rank == 2) std::swap(order[0], order[1]);
  return order;
}

}  // namespace

Tensor::Tensor(DType dtype, const std::vector<std::int64_t>& shape, Layout layout) {
  view_.dtype = dtype;
  view_.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), view_.shape.begin());
  std::int64_t stride = layout == Layout::kStrided ? 3 : 1;
  const std::vector<int> order = memory_order(view_.rank, layout);
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    view_.strides[*dim] = stride;
    stride *= shape[*dim] + (layout == Layout::kGapped ? 1 + *dim : 0);
  }
  first_ = kGuardBytes;
  std::int64_t extent = stride;
  if (layout == Layout::kReversed) {
    std::int64_t last = 0;
    for (int d = 0; d < view_.rank; ++d) {
      if (shape[d] > 0) last += (shape[d] - 1) * view_.strides[d];
      view_.strides[d] = -view_.strides[d];
    }
    first_ += last * size_of(dtype);
  }
  memory_.assign(extent * size_of(dtype) + 2 * kGuardBytes, kPoison);
  view_.data = memory_.data() + first_;
}

Tensor::Tensor(DType dtype, const oracle::Array& values, const std::vector<std::int64_t>& shape, Layout layout)
    : Tensor(dtype, shape, layout) {
  store(values);
}

Tensor::Tensor(DType index_dtype, const Lengths& values, const std::vector<std::int64_t>& shape)
    : Tensor(index_dtype, shape) {
  oracle::Array array(shape);
  array.values.assign(values.begin(), values.end());
  store(array);
}

template <class Visit>
void Tensor::for_each_element(Visit&& visit) const {
  const auto& n = view_.shape;
  const auto& s = view_.strides;
  const auto extent = [&](int d) { return d < view_.rank ? n[d] : 1; };
  std::size_t index = 0;
  for (std::int64_t a = 0; a < extent(0); ++a)
    for (std::int64_t b = 0; b < extent(1); ++b)
      for (std::int64_t c = 0; c < extent(2); ++c)
        for (std::int64_t d = 0; d < extent(3); ++d) {
          const std::int64_t element = a * s[0] + b * s[1] + c * s[2] + d * s[3];
          visit(index++, first_ + element * static_cast<std::int64_t>(size_of(view_.dtype)));
        }
}

void Tensor::store(const oracle::Array& values) {
  const auto put = [&](std::size_t at, auto value) { std::memcpy(&memory_[at], &value, sizeof value); };
  for_each_element([&](std::size_t index, std::size_t at) {
    const double x = values.values.at(index);
    switch (view_.dtype) {
      case DType::kFp32:
        return put(at, oracle::encode(oracle::kFp32, x));
      case DType::kFp16:
      case DType::kBf16:
        return put(at, static_cast<std::uint16_t>(oracle::encode(format_of(view_.dtype), x)));
      case DType::kInt32:
        return put(at, static_cast<std::int32_t>(x));
      case DType::kInt64:
        return put(at, static_cast<std::int64_t>(x));
      case DType::kBool:
        return put(at, static_cast<std::uint8_t>(x != 0));
    }
  });
}

oracle::Array Tensor::load() const {
  if (!given()) return {};
  oracle::Array values(std::vector<std::int64_t>(view_.shape.begin(), view_.shape.begin() + view_.rank));
  const std::size_t width = size_of(view_.dtype);
  for_each_element([&](std::size_t index, std::size_t at) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &memory_[at], width);
    values.values[index] = oracle::decode(format_of(view_.dtype), bits);
  });
  return values;
}

std::vector<std::byte> Tensor::bytes() const {
  std::vector<std::byte> result;
  if (!given()) return result;
  for_each_element([&](std::size_t, std::size_t at) {
    result.insert(result.end(), memory_.begin() + at, memory_.begin() + at + size_of(view_.dtype));
  });
  return result;
}

bool Tensor::guards_intact() const {
  if (!given()) return true;
  std::vector<std::byte> rest = memory_;
  for_each_element([&](std::size_t, std::size_t at) { std::memset(&rest[at], 0xFF, size_of(view_.dtype)); });
  return std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == kPoison; });
}

}  // namespace splitq::testing
