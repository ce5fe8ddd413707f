// TensorView and its makers.
#include <algorithm>
#include <limits>

#include "splitq/splitq.hpp"

namespace splitq {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kFp32:
    case DType::kInt32:
      return 4;
    case DType::kFp16:
    case DType::kBf16:
      return 2;
    case DType::kInt64:
      return 8;
    case DType::kBool:
      return 1;
  }
  return 0;
}

std::int64_t TensorView::size() const {
  if (!given()) return 0;
  std::int64_t count = 1;
  for (int d = 0; d < std::min(rank, kMaxRank); ++d) {
    if (shape[d] == 0) return 0;
    // A count that does not fit is refused where the view is used.
    if (__builtin_mul_overflow(count, shape[d], &count)) count = std::numeric_limits<std::int64_t>::max();
  }
  return count;
}

TensorView view(const void* data, DType dtype, std::initializer_list<std::int64_t> shape,
                std::initializer_list<std::int64_t> strides) {
  if (shape.size() < 1 || shape.size() > kMaxRank) {
    throw Error(StatusCode::kInvalidArgument,
                "shape: " + std::to_string(shape.size()) + " sizes; must be from 1 to " + std::to_string(kMaxRank));
  }
  if (strides.size() != 0 && strides.size() != shape.size()) {
    throw Error(StatusCode::kInvalidArgument, "strides: " + std::to_string(strides.size()) + " values; must be " +
                                                  std::to_string(shape.size()) + ", as in shape, or none");
  }
  TensorView v;
  v.data = const_cast<void*>(data);  // inputs are never written
  v.dtype = dtype;
  v.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), v.shape.begin());
  std::copy(strides.begin(), strides.end(), v.strides.begin());
  if (strides.size() != 0) return v;
  std::int64_t stride = 1;
  for (int d = v.rank - 1; d >= 0; --d) {
    v.strides[d] = stride;
    if (__builtin_mul_overflow(stride, std::max<std::int64_t>(v.shape[d], 1), &stride)) {
      stride = std::numeric_limits<std::int64_t>::max();
    }
  }
  return v;
}

}  // namespace splitq
