#include "problem/names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <span>

namespace splitq {

const char* to_string(DType dtype) {
  switch (dtype) {
    case DType::kFp32:
      return "fp32";
    case DType::kFp16:
      return "fp16";
    case DType::kBf16:
      return "bf16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kBool:
      return "bool";
  }
  return "unknown";
}

const char* to_string(Direction direction) { return direction == Direction::kForward ? "forward" : "backward"; }

const char* to_string(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kAuto:
      return "auto";
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kCuda:
      return "cuda";
    case DeviceKind::kEmulator:
      return "emulator";
  }
  return "unknown";
}

std::string to_string(Device device) {
  return device.kind == DeviceKind::kCuda ? fmt::format("cuda:{}", device.index) : to_string(device.kind);
}

std::optional<Device> parse_device(std::string_view text) {
  for (const DeviceKind kind : {DeviceKind::kAuto, DeviceKind::kCpu, DeviceKind::kCuda, DeviceKind::kEmulator}) {
    if (text == to_string(kind)) return Device{kind, 0};
  }
  constexpr std::string_view kCuda = "cuda:";
  if (!text.starts_with(kCuda)) return std::nullopt;
  int index = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + kCuda.size(), end, index);
  if (error != std::errc{} || at != end || index < 0) return std::nullopt;
  return Device{DeviceKind::kCuda, index};
}

bool is_valid(DType dtype) { return dtype >= DType::kFp32 && dtype <= DType::kBool; }
bool is_valid(DeviceKind kind) { return kind >= DeviceKind::kAuto && kind <= DeviceKind::kEmulator; }

namespace {

std::string list(const std::array<std::int64_t, kMaxRank>& values, int rank) {
  return fmt::format("({})", fmt::join(std::span(values).first(static_cast<std::size_t>(rank)), ", "));
}

}  // namespace

std::string shape_string(const TensorInfo& t) { return list(t.shape, t.rank); }
std::string strides_string(const TensorInfo& t) { return list(t.strides, t.rank); }

}  // namespace splitq
