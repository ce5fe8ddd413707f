// The names that messages, documentation and the command line share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "problem/problem.hpp"

namespace splitq {

const char* to_string(DType dtype);          // "fp32"
const char* to_string(Direction direction);  // "forward"
const char* to_string(DeviceKind kind);      // "cpu"
std::string to_string(Device device);        // "cpu", "cuda:1"

/// "auto", "cpu", "cuda", which is "cuda:0", "cuda:1", "emulator". Nothing: no device.
std::optional<Device> parse_device(std::string_view text);

bool is_valid(DType dtype);  // one of the enumerators: values may come from C
bool is_valid(DeviceKind kind);

std::string shape_string(const TensorInfo& t);  // "(2, 5, 3, 64)"
std::string strides_string(const TensorInfo& t);

}  // namespace splitq
