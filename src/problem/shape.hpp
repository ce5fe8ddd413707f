// Shapes as the documentation writes them, checked: k is (B, Sk, Hkv, D), and every tensor with a B has the same one.
#pragma once

#include <initializer_list>

#include "problem/problem.hpp"

namespace splitq {

/// A size that tensors share. The first tensor that has it sets it; the others must agree.
struct Extent {
  const char* symbol;
  std::int64_t value = -1;       // -1: not set yet
  const char* set_by = nullptr;  // the tensor that did
};

/// One axis of a shape: an extent, one more than it ("B+1"), or either it or 1 ("B|1").
struct Axis {
  Axis(Extent& e) : extent(&e) {}  // NOLINT(google-explicit-constructor): a shape reads as a list of extents
  Extent* extent;
  std::int64_t plus = 0;
  bool or_one = false;
};
Axis or_one(Extent& extent);
Axis plus_one(Extent& extent);

using Shape = std::initializer_list<Axis>;

/// Matches a tensor with a shape, or with that one of several that has its rank. A tensor that is not given passes.
Status match(const char* name, const TensorInfo& t, std::initializer_list<Shape> any_of);

/// The tensor's type is one of these; `because` is appended to the message (", the type of q").
Status match_type(const char* name, const TensorInfo& t, std::initializer_list<DType> any_of, const char* because = "");

/// The tensor's type is fp32, or `dtype`, which is that of the tensor `whose`.
Status match_fp32_or(const char* name, const TensorInfo& t, DType dtype, const char* whose);

}  // namespace splitq
