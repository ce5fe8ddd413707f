// dK and dV on their way: fp32 sums of what the query tiles of a round add.
#pragma once

#include <cstddef>

#include "cpu/kernels.hpp"
#include "cpu/memory.hpp"
#include "cpu/packed_keys.hpp"

namespace splitq::cpu {

/// Rows of one head lie side by side here. In the tensors the rows of other heads lie between them, which other threads write
/// at the same time: what a processor reads ahead of one row it would take from another's cache.
class KeySums {
 public:
  KeySums(Call& call, const Kernels& kernels, const PackedKeys& keys);

  /// Zeros for the pairs of a round.
  void open(std::int64_t round);
  /// Their dK and dV, to the tensors.
  void close(std::int64_t round);

  /// Bytes that a call takes, at most.
  static std::size_t bytes(const Problem& problem, const CpuPlan& plan);

 private:
  template <class F>
  void for_each_pair(std::int64_t round, const F& f);

  Call& call_;
  const Kernels& kernels_;
  const PackedKeys& keys_;
  Memory memory_;
};

}  // namespace splitq::cpu
