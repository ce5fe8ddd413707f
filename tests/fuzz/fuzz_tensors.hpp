// Tensors out of a fuzzer's bytes: mostly what a call wants, now and then anything else.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "splitq/splitq.hpp"

namespace splitq::fuzz {

class TensorSource {
 public:
  explicit TensorSource(FuzzedDataProvider& bytes) : bytes_(bytes) {}

  /// A tensor of this type and shape, whose type, rank, extents, strides, device or pointer the fuzzer may replace.
  /// Its memory is exactly what its strides reach, so that AddressSanitizer sees every step outside.
  /// Beyond kMaxBytes it has an address and no memory.
  TensorView operator()(DType dtype, const std::vector<std::int64_t>& shape);

  /// An index tensor, int32 or int64, with these values, some of which the fuzzer may replace. Not given where it
  /// would have no memory: indices are read.
  TensorView index(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& values);

  /// Whether every tensor has its memory.
  bool all_in_memory() const { return all_in_memory_; }

 private:
  static constexpr std::int64_t kMaxBytes = 1 << 20;

  bool mutate() { return bytes_.ConsumeIntegralInRange<int>(0, 60) == 60; }
  std::int64_t any_extent();
  void choose_strides(TensorView& view);
  TensorView make(DType dtype, const std::vector<std::int64_t>& shape);
  bool allocate(TensorView& view);

  FuzzedDataProvider& bytes_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  bool all_in_memory_ = true;
};

}  // namespace splitq::fuzz
