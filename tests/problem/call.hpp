// A small valid call, for tests to spoil: memory for every tensor of a forward or a backward call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <vector>

#include "problem/problem.hpp"

namespace splitq::testing {

inline constexpr std::int64_t kB = 2, kSq = 5, kSk = 7, kHq = 4, kHkv = 2, kD = 8, kDv = 6;

class Call {
 public:
  explicit Call(Direction d) : direction(d) {
    q = make(DType::kFp32, {kB, kSq, kHq, kD});
    k = make(DType::kFp32, {kB, kSk, kHkv, kD});
    v = make(DType::kFp32, {kB, kSk, kHkv, kDv});
    out = make(DType::kFp32, {kB, kSq, kHq, kDv});
    softmax_lse = make(DType::kFp32, {kB, kHq, kSq});
    if (d == Direction::kForward) return;
    dout = make(DType::kFp32, {kB, kSq, kHq, kDv});
    dq = make(DType::kFp32, {kB, kSq, kHq, kD});
    dk = make(DType::kFp32, {kB, kSk, kHkv, kD});
    dv = make(DType::kFp32, {kB, kSk, kHkv, kDv});
  }

  /// q of lengths 2, 3 and k of lengths 3, 4, each packed into one sequence's worth of rows.
  void pack() {
    q = make(DType::kFp32, {kSq, kHq, kD});
    k = make(DType::kFp32, {kSk, kHkv, kD});
    v = make(DType::kFp32, {kSk, kHkv, kDv});
    out = make(DType::kFp32, {kSq, kHq, kDv});
    softmax_lse = make(DType::kFp32, {kHq, kSq});
    options.cu_seqlens_q = indices({0, 2, 5});
    options.cu_seqlens_k = indices({0, 3, 7});
    if (direction == Direction::kForward) return;
    dout = make(DType::kFp32, {kSq, kHq, kDv});
    dq = make(DType::kFp32, {kSq, kHq, kD});
    dk = make(DType::kFp32, {kSk, kHkv, kD});
    dv = make(DType::kFp32, {kSk, kHkv, kDv});
  }

  /// k in five pages of 4 rows; lengths 7 and 4.
  void page() {
    k = make(DType::kFp32, {5, 4, kHkv, kD});
    v = make(DType::kFp32, {5, 4, kHkv, kDv});
    if (dk.given()) dk = make(DType::kFp32, {5, 4, kHkv, kD}), dv = make(DType::kFp32, {5, 4, kHkv, kDv});
    options.seqlens_k = indices({7, 4});
    options.block_table = view(indices({4, 0, 2, -1}).data, DType::kInt32, {2, 2});
  }

  TensorView make(DType dtype, std::initializer_list<std::int64_t> shape) {
    TensorView t = view(nullptr, dtype, shape);
    memory_.emplace_back((static_cast<std::size_t>(t.size()) * size_of(dtype) + 7) / 8 + 1);
    t.data = memory_.back().data();
    return t;
  }

  TensorView indices(std::initializer_list<std::int32_t> values) {
    TensorView t = make(DType::kInt32, {static_cast<std::int64_t>(values.size())});
    std::copy(values.begin(), values.end(), static_cast<std::int32_t*>(t.data));
    return t;
  }

  ForwardTensors forward() const { return {q, k, v, out, softmax_lse}; }
  BackwardTensors backward() const { return {dout, q, k, v, out, softmax_lse, dq, dk, dv, dlse, dbias, dsink}; }

  Status check(Problem* problem) const {
    return direction == Direction::kForward ? make_problem(forward(), options, problem)
                                            : make_problem(backward(), options, problem);
  }
  Tensors tensors() const {
    return direction == Direction::kForward ? gather(forward(), options) : gather(backward(), options);
  }

  Direction direction;
  TensorView q, k, v, out, softmax_lse, dout, dq, dk, dv, dlse, dbias, dsink;
  Options options;

 private:
  std::deque<std::vector<std::int64_t>> memory_;
};

}  // namespace splitq::testing
