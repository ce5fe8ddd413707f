// Memory of one tensor with any strides, filled with what no result may contain, and its elements as doubles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "splitq/splitq.hpp"
#include "tensor/element.hpp"

namespace splitq::testing {

enum class Order { kRowMajor, kReversed, kLastDimOutermost };

class Array {
 public:
  using Index = std::array<std::int64_t, kMaxRank>;

  Array(DType dtype, const std::vector<std::int64_t>& shape, Order order = Order::kRowMajor, std::int64_t gap = 0) {
    view_.dtype = dtype;
    view_.rank = static_cast<int>(shape.size());
    std::int64_t stride = 1 + gap, first = 0;
    for (int n = 0; n < view_.rank; ++n) {
      const int d =
          order == Order::kLastDimOutermost ? (view_.rank - 2 - n + view_.rank) % view_.rank : view_.rank - 1 - n;
      view_.shape[d] = shape[d];
      view_.strides[d] = order == Order::kReversed ? -stride : stride;
      if (order == Order::kReversed && shape[d] > 0) first += (shape[d] - 1) * stride;
      stride = stride * shape[d] + gap;
    }
    // 0xFF is NaN in every floating-point type and -1 in every integer.
    memory_.assign(static_cast<std::size_t>(stride + 1) * size_of(dtype), std::byte{0xFF});
    view_.data = memory_.data() + static_cast<std::size_t>(first) * size_of(dtype);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  const TensorView& view() const { return view_; }
  TensorView& view() { return view_; }
  const std::vector<std::byte>& memory() const { return memory_; }

  void* element(const Index& i) const {
    std::int64_t at = 0;
    for (int d = 0; d < view_.rank; ++d) at += i[d] * view_.strides[d];
    return static_cast<std::byte*>(view_.data) + at * static_cast<std::int64_t>(size_of(view_.dtype));
  }
  double get(const Index& i) const { return to_float(view_.dtype, element(i)); }
  void set(const Index& i, double value) {
    if (view_.dtype == DType::kInt32) {
      const auto n = static_cast<std::int32_t>(value);
      std::memcpy(element(i), &n, sizeof n);
    } else if (view_.dtype == DType::kInt64) {
      const auto n = static_cast<std::int64_t>(value);
      std::memcpy(element(i), &n, sizeof n);
    } else {
      store(view_.dtype, element(i), static_cast<float>(value));
    }
  }

  void for_each(const std::function<void(const Index&)>& f) const {
    Index i{};
    const std::array<std::int64_t, 4> n = {view_.shape[0], view_.rank > 1 ? view_.shape[1] : 1,
                                           view_.rank > 2 ? view_.shape[2] : 1, view_.rank > 3 ? view_.shape[3] : 1};
    for (i[0] = 0; i[0] < n[0]; ++i[0])
      for (i[1] = 0; i[1] < n[1]; ++i[1])
        for (i[2] = 0; i[2] < n[2]; ++i[2])
          for (i[3] = 0; i[3] < n[3]; ++i[3]) f(i);
  }

  Array& fill_random(std::uint64_t seed) {
    std::mt19937_64 rng(seed);
    std::uniform_real_distribution<double> uniform(-2, 2);
    for_each([&](const Index& i) { set(i, uniform(rng)); });
    return *this;
  }
  Array& fill(const std::vector<std::int64_t>& values) {
    std::size_t n = 0;
    for_each([&](const Index& i) { set(i, static_cast<double>(values.at(n++))); });
    return *this;
  }

 private:
  std::vector<std::byte> memory_;
  TensorView view_{};
};

}  // namespace splitq::testing
