// The names that messages, documentation and the command line share.
#pragma once

#include <string>

#include "problem/problem.hpp"

namespace splitq {

const char* to_string(DType dtype);          // "fp32"
const char* to_string(Direction direction);  // "forward"
const char* to_string(DeviceKind kind);      // "cpu"
std::string to_string(Device device);        // "cpu", "cuda:1"

bool is_valid(DType dtype);  // one of the enumerators: values may come from C
bool is_valid(DeviceKind kind);

std::string shape_string(const TensorInfo& t);  // "(2, 5, 3, 64)"
std::string strides_string(const TensorInfo& t);

}  // namespace splitq
