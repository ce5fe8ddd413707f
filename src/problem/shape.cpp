#include "problem/shape.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "problem/names.hpp"

namespace splitq {
namespace {

std::string symbol(const Axis& axis) {
  return fmt::format("{}{}{}", axis.extent->symbol, axis.plus == 1 ? "+1" : "", axis.or_one ? "|1" : "");
}

std::string symbols(const Shape& shape) {
  std::string text;
  for (const Axis& axis : shape) text += (text.empty() ? "" : ", ") + symbol(axis);
  return fmt::format("({})", text);
}

/// " with B = 2 as in q, D = 64 as in q": the extents that other tensors have set.
std::string known_extents(const char* name, const Shape& shape) {
  std::string text;
  for (const Axis& axis : shape) {
    const Extent& e = *axis.extent;
    if (e.value < 0 || e.set_by == name) continue;
    text += fmt::format("{} {} = {} as in {}", text.empty() ? " with" : ",", e.symbol, e.value, e.set_by);
  }
  return text;
}

bool matches(const Axis& axis, std::int64_t size) {
  if (axis.or_one && size == 1) return true;
  return axis.extent->value < 0 ? size >= axis.plus : size == axis.extent->value + axis.plus;
}

}  // namespace

Axis or_one(Extent& extent) {
  Axis axis(extent);
  axis.or_one = true;
  return axis;
}

Axis plus_one(Extent& extent) {
  Axis axis(extent);
  axis.plus = 1;
  return axis;
}

Status match(const char* name, const TensorInfo& t, std::initializer_list<Shape> any_of) {
  if (!t.given()) return {};
  for (const Shape& shape : any_of) {
    if (static_cast<int>(shape.size()) != t.rank) continue;
    const std::int64_t* size = t.shape.data();
    for (const Axis& axis : shape) {
      if (!matches(axis, *size)) {
        return Status::invalid(fmt::format("{}: shape {}; must be {}{}", name, shape_string(t), symbols(shape),
                                           known_extents(name, shape)));
      }
      // A 1 that may mean "broadcast" does not say how long the axis is.
      if (axis.extent->value < 0 && !(axis.or_one && *size == 1)) {
        axis.extent->value = *size - axis.plus;
        axis.extent->set_by = name;
      }
      ++size;
    }
    return {};
  }
  std::string expected;
  for (const Shape& shape : any_of) expected += (expected.empty() ? "" : " or ") + symbols(shape);
  return Status::invalid(fmt::format("{}: rank {}, shape {}; must be {}{}", name, t.rank, shape_string(t), expected,
                                     known_extents(name, *any_of.begin())));
}

Status match_type(const char* name, const TensorInfo& t, std::initializer_list<DType> any_of, const char* because) {
  if (!t.given() || std::find(any_of.begin(), any_of.end(), t.dtype) != any_of.end()) return {};
  std::string expected;
  for (const DType dtype : any_of) expected += std::string(expected.empty() ? "" : " or ") + to_string(dtype);
  return Status::invalid(fmt::format("{}: type {}; must be {}{}", name, to_string(t.dtype), expected, because));
}

Status match_fp32_or(const char* name, const TensorInfo& t, DType dtype, const char* whose) {
  if (!t.given() || dtype == DType::kFp32) return match_type(name, t, {DType::kFp32});
  return match_type(name, t, {DType::kFp32, dtype}, fmt::format(", the type of {}", whose).c_str());
}

}  // namespace splitq
