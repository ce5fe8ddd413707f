#include "convert.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace splitq::cli {

std::uint16_t fp16_from_fp32(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16 & 0x8000;
  if (std::isnan(x)) return static_cast<std::uint16_t>(sign | 0x7e00 | (bits >> 13 & 0x3ff));
  const float magnitude = std::fabs(x);
  if (magnitude >= 65520.0f) return static_cast<std::uint16_t>(sign | 0x7c00);  // halfway to 65536 rounds up
  if (magnitude < 0x1p-14f) {
    // Subnormal: multiples of 2^-24. Adding 1.5 * 2^(23-24) leaves them, rounded, in the low bits of the sum.
    constexpr float kShift = 0x1.8p-1f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(magnitude + kShift) & 0x7ff));
  }
  const std::uint32_t m = std::bit_cast<std::uint32_t>(magnitude);
  const std::uint32_t rounded = m + 0xfff + (m >> 13 & 1);             // a carry goes into the exponent, as it should
  return static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112u << 10)));  // 112: the difference of the biases
}

float fp32_from_fp16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  // Moved into place the exponent is 112 too small; the product corrects it, for subnormal numbers too.
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f));
}

std::uint16_t bf16_from_fp32(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float fp32_from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

namespace {

/// Applies f to each element. Loads and stores go by memcpy: buffers hold bytes.
template <class From, class F>
Buffer map(const Buffer& data, F&& f) {
  using To = std::invoke_result_t<F, From>;
  const std::size_t count = data.size() / sizeof(From);
  Buffer out(count * sizeof(To));
  for (std::size_t i = 0; i < count; ++i) {
    From from;
    std::memcpy(&from, data.data() + i * sizeof(From), sizeof(From));
    const To to = f(from);
    std::memcpy(out.data() + i * sizeof(To), &to, sizeof(To));
  }
  return out;
}

}  // namespace

Buffer to_fp32(Buffer data, DType from) {
  if (from == DType::kFp16) return map<std::uint16_t>(data, fp32_from_fp16);
  if (from == DType::kBf16) return map<std::uint16_t>(data, fp32_from_bf16);
  return data;
}

Buffer to_dtype(Buffer data, npy::Type from, DType to) {
  if (from == npy::Type::kFloat16 && to == DType::kFp16) return data;
  if (from == npy::Type::kFloat16) data = to_fp32(std::move(data), DType::kFp16);
  if (from == npy::Type::kFloat64) data = map<double>(data, [](double x) { return static_cast<float>(x); });
  if (to == DType::kFp16) return map<float>(data, fp16_from_fp32);
  if (to == DType::kBf16) return map<float>(data, bf16_from_fp32);
  return data;
}

}  // namespace splitq::cli
