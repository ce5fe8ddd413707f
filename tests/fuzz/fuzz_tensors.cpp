#include "fuzz_tensors.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace splitq::fuzz {

std::int64_t TensorSource::any_extent() {
  switch (bytes_.ConsumeIntegralInRange<int>(0, 7)) {
    case 0:
      return 0;
    case 1:
      return -1;
    case 2:
      return std::numeric_limits<std::int64_t>::max() >> bytes_.ConsumeIntegralInRange<int>(0, 40);
    case 3:
      return bytes_.ConsumeIntegral<std::int64_t>();
    default:
      return bytes_.ConsumeIntegralInRange<std::int64_t>(1, 9);
  }
}

/// The extents in any order of memory, with gaps; or backwards, or broadcast, or anything.
void TensorSource::choose_strides(TensorView& view) {
  std::array<int, kMaxRank> order{0, 1, 2, 3};
  const int rank = std::clamp(view.rank, 0, kMaxRank);
  std::reverse(order.begin(), order.begin() + rank);  // row-major: the last dimension first
  if (bytes_.ConsumeIntegralInRange<int>(0, 3) == 0) {
    for (int i = rank - 1; i > 0; --i) std::swap(order[i], order[bytes_.ConsumeIntegralInRange<int>(0, i)]);
  }
  std::int64_t step = 1;
  for (int i = 0; i < rank; ++i) {
    const int d = order[i];
    if (bytes_.ConsumeIntegralInRange<int>(0, 9) == 0) step += bytes_.ConsumeIntegralInRange<int>(1, 3);
    view.strides[d] = step;
    if (mutate()) view.strides[d] = -step;
    if (mutate()) view.strides[d] = 0;
    if (mutate()) view.strides[d] = any_extent();
    if (__builtin_mul_overflow(step, std::max<std::int64_t>(view.shape[d], 1), &step) || step > kMaxBytes) step = 1;
  }
}

bool TensorSource::allocate(TensorView& view) {
  const auto element =
      static_cast<std::int64_t>(view.dtype >= DType::kFp32 && view.dtype <= DType::kBool ? size_of(view.dtype) : 8);
  std::int64_t first = 0, behind = 1;  // elements, relative to (0, 0, ...)
  bool overflow = false, empty = false;
  for (int d = 0; d < std::clamp(view.rank, 0, kMaxRank); ++d) {
    std::int64_t reach = 0;
    empty |= view.shape[d] <= 0;
    if (empty) break;
    overflow |= __builtin_mul_overflow(view.shape[d] - 1, view.strides[d], &reach);
    overflow |= __builtin_add_overflow(reach < 0 ? first : behind, reach, reach < 0 ? &first : &behind);
  }
  if (empty) first = behind = 0;
  std::int64_t count = 0, bytes = 0;
  overflow |= __builtin_sub_overflow(behind, first, &count) || __builtin_mul_overflow(count, element, &bytes);
  if (overflow || bytes > kMaxBytes) {
    view.data = reinterpret_cast<void*>(std::uintptr_t{1} << 40);
    return false;
  }
  memory_.push_back(std::make_unique<std::byte[]>(static_cast<std::size_t>(bytes)));
  std::byte* memory = memory_.back().get();
  // A short pattern of the fuzzer's, repeated: any bits, NaN and infinity among them.
  const auto pattern = bytes_.ConsumeBytes<std::uint8_t>(bytes_.ConsumeIntegralInRange<std::size_t>(0, 16));
  for (std::int64_t i = 0; i < bytes; ++i) {
    const std::uint8_t value = pattern.empty() ? 0 : pattern[static_cast<std::size_t>(i) % pattern.size()];
    memory[i] = std::byte{view.dtype == DType::kBool ? static_cast<std::uint8_t>(value & 1) : value};
  }
  view.data = memory - first * element;
  return true;
}

TensorView TensorSource::make(DType dtype, const std::vector<std::int64_t>& shape) {
  TensorView view{.dtype = dtype, .rank = static_cast<int>(shape.size())};
  std::copy(shape.begin(), shape.end(), view.shape.begin());
  if (mutate()) view.dtype = static_cast<DType>(bytes_.ConsumeIntegralInRange<int>(-1, 7));
  if (mutate()) view.rank = bytes_.ConsumeIntegralInRange<int>(-1, 6);
  if (mutate()) view.device.kind = static_cast<DeviceKind>(bytes_.ConsumeIntegralInRange<int>(-1, 5));
  for (std::int64_t& extent : view.shape) {
    if (mutate()) extent = any_extent();
  }
  choose_strides(view);
  return view;
}

TensorView TensorSource::operator()(DType dtype, const std::vector<std::int64_t>& shape) {
  if (mutate()) return {};
  TensorView view = make(dtype, shape);
  all_in_memory_ &= allocate(view);
  if (mutate()) {
    view.data = nullptr;
    all_in_memory_ = false;
  }
  return view;
}

TensorView TensorSource::index(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& values) {
  if (mutate()) return {};
  TensorView view = make(bytes_.ConsumeBool() ? DType::kInt32 : DType::kInt64, shape);
  if (!allocate(view)) return {};
  if ((view.dtype != DType::kInt32 && view.dtype != DType::kInt64) || (view.rank != 1 && view.rank != 2)) return view;
  constexpr std::int64_t kMost = 1000;  // broadcast, more would fit the memory
  if (view.shape[0] > kMost || (view.rank == 2 && view.shape[1] > kMost)) return {};
  std::size_t next = 0;
  for (std::int64_t i = 0; i < view.shape[0]; ++i) {
    for (std::int64_t j = 0; j < (view.rank == 2 ? view.shape[1] : 1); ++j) {
      std::int64_t value = next < values.size() ? values[next++] : 0;
      if (mutate()) value = any_extent();
      if (mutate()) value = bytes_.ConsumeIntegralInRange<std::int64_t>(-2, 40);
      const std::int64_t at = i * view.strides[0] + (view.rank == 2 ? j * view.strides[1] : 0);
      if (view.dtype == DType::kInt32)
        static_cast<std::int32_t*>(view.data)[at] = static_cast<std::int32_t>(value);
      else
        static_cast<std::int64_t*>(view.data)[at] = value;
    }
  }
  return view;
}

}  // namespace splitq::fuzz
