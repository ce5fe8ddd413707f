// K and V as tiles, made once for all the query tiles that read them, some heads at a time.
#pragma once

#include <algorithm>
#include <vector>

#include "cpu/kernels.hpp"
#include "cpu/memory.hpp"

namespace splitq::cpu {

/// Work in rounds of plan.pack_heads (sequence, key/value head) pairs, in the order of sequences. Without packing there is
/// one round.
class PackedKeys {
 public:
  PackedKeys(Call& call, const Kernels& kernels);

  std::int64_t rounds() const { return rounds_; }
  std::int64_t round_of(const Task& task) const;
  /// Those of a round: sequence * heads_kv + head.
  struct Pairs {
    std::int64_t begin, end;
  };
  Pairs pairs(std::int64_t round) const;
  /// The largest sum over the pairs of a round of what count(sequence) says of each.
  template <class Count>
  std::int64_t most_of_round(const Count& count) const {
    std::int64_t most = 0;
    for (std::int64_t round = 0; round < rounds_; ++round) {
      std::int64_t sum = 0;
      for (std::int64_t i = pairs(round).begin; i < pairs(round).end; ++i) sum += count(i / call_.problem.heads_kv);
      most = std::max(most, sum);
    }
    return most;
  }
  /// Makes the round's tiles, over those of the round before.
  void pack(std::int64_t round);

  /// Bytes that a call takes, at most.
  static std::size_t bytes(const Problem& problem, const CpuPlan& plan, const Kernels& kernels);

 private:
  Call& call_;
  const Kernels& kernels_;
  std::int64_t rounds_ = 1;
  Memory memory_;
};

/// Calls run_round(round, begin, end) with the tasks of each round, in the order in which they stand, once its keys are packed.
template <class RunRound>
void in_rounds(PackedKeys& keys, std::vector<Task>& tasks, const RunRound& run_round) {
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&](const Task& a, const Task& b) { return keys.round_of(a) < keys.round_of(b); });
  std::size_t begin = 0;
  for (std::int64_t round = 0; round < keys.rounds(); ++round) {
    std::size_t end = begin;
    while (end < tasks.size() && keys.round_of(tasks[end]) == round) ++end;
    if (end > begin) keys.pack(round);
    run_round(round, begin, end);
    begin = end;
  }
}

}  // namespace splitq::cpu
