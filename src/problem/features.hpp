// What the library can do, in one list. Validation, explain, the support table in docs/support.md and the axes of the
// tests come from it.
#pragma once

#include <span>
#include <string>

#include "problem/problem.hpp"

namespace splitq {

/// A set of kinds of device, one bit each.
using DeviceSet = unsigned;
constexpr DeviceSet device_bit(DeviceKind kind) { return 1u << static_cast<unsigned>(kind); }
constexpr bool contains(DeviceSet set, DeviceKind kind) { return (set & device_bit(kind)) != 0; }

/// Something that a call may ask for.
struct Feature {
  const char* name;             // the option or the argument that asks for it
  const char* description;      // one line
  DeviceSet forward, backward;  // where it is computed
  bool (*used)(const Problem&);

  DeviceSet devices(Direction direction) const { return direction == Direction::kForward ? forward : backward; }
};

/// A type that a role of tensor may have.
struct TypeRole {
  const char* tensors;
  const char* types;
};

/// A number that has a range.
struct Limit {
  const char* name;
  const char* allowed;      // completes "must be ..."
  const char* description;  // one line
  double (*value)(const Problem&);
  bool (*holds)(double value);
};

std::span<const Feature> features();
std::span<const TypeRole> type_roles();
std::span<const Limit> limits();

/// Every number in its range.
Status check_limits(const Problem& problem);

/// Everything that the problem uses is computed on this kind of device; kAuto: on any.
Status check_features(const Problem& problem, DeviceKind device = DeviceKind::kAuto);

/// The lists as Markdown tables: the generated part of docs/support.md.
std::string support_table();

}  // namespace splitq
