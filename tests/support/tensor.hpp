// Memory of one tensor, laid out as a test asks, with guard zones. Every byte starts as 0xFF: NaN in every
// floating-point type, an impossible length, neither true nor false.
#pragma once

#include <cstddef>
#include <vector>

#include "oracle/array.hpp"
#include "support/attention_case.hpp"

namespace splitq::testing {

class Tensor {
 public:
  Tensor() = default;  // not given
  Tensor(DType dtype, const std::vector<std::int64_t>& shape, Layout layout = Layout::kContiguous);
  Tensor(DType dtype, const oracle::Array& values, const std::vector<std::int64_t>& shape,
         Layout layout = Layout::kContiguous);
  Tensor(DType index_dtype, const Lengths& values, const std::vector<std::int64_t>& shape);

  TensorView view() const { return view_; }
  bool given() const { return view_.given(); }

  void store(const oracle::Array& values);
  oracle::Array load() const;  // of the view's shape

  /// The view's elements as they lie in memory, in row-major order.
  std::vector<std::byte> bytes() const;
  /// Whether every byte outside the view's elements is as it was made.
  bool guards_intact() const;
  /// All memory, guards included: for inputs, which nobody may write.
  const std::vector<std::byte>& memory() const { return memory_; }

 private:
  template <class Visit>
  void for_each_element(Visit&& visit) const;

  std::vector<std::byte> memory_;
  std::size_t first_ = 0;  // byte offset of element (0, 0, ...)
  TensorView view_{};
};

}  // namespace splitq::testing
