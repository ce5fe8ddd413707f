#include "convert.hpp"

#include <cstring>
#include <type_traits>
#include <utility>

#include "tensor/element.hpp"

namespace splitq::cli {
namespace {

/// Every element, read by memcpy: a buffer holds bytes.
template <class From, class To>
Buffer map(const Buffer& data) {
  const std::size_t count = data.size() / sizeof(From);
  Buffer out(count * sizeof(To));
  for (std::size_t i = 0; i < count; ++i) {
    From from;
    std::memcpy(&from, data.data() + i * sizeof(From), sizeof(From));
    To to;
    if constexpr (std::is_same_v<From, double>)
      to = from_float<To>(static_cast<float>(from));
    else
      to = from_float<To>(to_float(from));
    std::memcpy(out.data() + i * sizeof(To), &to, sizeof(To));
  }
  return out;
}

template <class From>
Buffer map_to(const Buffer& data, DType to) {
  return with_storage_type(to, [&](auto element) { return map<From, decltype(element)>(data); });
}

}  // namespace

Buffer to_dtype(Buffer data, npy::Type from, DType to) {
  if (from == npy::Type::kFloat64) return map_to<double>(data, to);
  const DType stored = from == npy::Type::kFloat16 ? DType::kFp16 : DType::kFp32;
  if (stored == to) return data;
  return stored == DType::kFp16 ? map_to<Fp16>(data, to) : map_to<float>(data, to);
}

Buffer to_fp32(Buffer data, DType from) {
  if (from == DType::kFp32) return data;
  return with_storage_type(from, [&](auto element) { return map<decltype(element), float>(data); });
}

}  // namespace splitq::cli
