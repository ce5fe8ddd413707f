// What the CPU backend hands to the code of one instruction set, and what it gets from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cpu/arena.hpp"
#include "cpu/rows.hpp"
#include "plan/plan.hpp"
#include "problem/problem.hpp"
#include "shared/philox.hpp"
#include "shared/visible.hpp"

namespace splitq::cpu {

/// A key tile in fp32, rows of tile_stride() floats, and the largest magnitudes in it (as bits, load_rows()).
struct KeyTile {
  const float* k = nullptr;
  const float* v = nullptr;
  std::uint32_t largest_k = 0;
  std::uint32_t largest_v = 0;
};

/// Sums of one (sequence, key/value head).
struct KeySum {
  float* dk = nullptr;  // [Sk][D]
  float* dv = nullptr;  // [Sk][Dv]
};

/// A call, shared by all its tasks.
struct Call {
  const Problem& problem;
  const Tensors& tensors;
  const CpuPlan& plan;
  std::vector<Sequence> sequences;
  DropoutStream dropout{};
  // Where the plan packs keys: the tiles of sequence b, head h, from first_packed[b] + h * key_tiles(b) on.
  std::vector<KeyTile> packed;
  std::vector<std::int64_t> first_packed;
  // Forward with split keys: each split's unnormalised output rows, row maxima and row sums.
  std::vector<std::int64_t> first_partial;  // of each sequence; rows follow as [split][head][row]
  float* partial_out = nullptr;             // [partial rows][Dv]
  float* partial_max = nullptr;             // [partial rows]
  float* partial_sum = nullptr;             // [partial rows]
  // Backward: where tasks add their shares of dK, dV, dbias, in fp32.
  std::vector<KeySum> key_sums;     // [sequence][key/value head], of one round at a time (cpu/key_sums.hpp)
  TensorView dbias_sum{};           // the tensor itself or workspace (cpu/backward.cpp)
  double* dsink_partial = nullptr;  // [tasks][group]

  Band band(std::int64_t b) const;
  /// Rows of sequence b, one key/value head.
  std::int64_t rows(std::int64_t b) const { return sequences[b].seqlen_q * problem.group(); }
  std::int64_t splits(std::int64_t b) const;
  std::int64_t key_tiles(std::int64_t b) const;
  /// Index into `packed` of a key tile.
  std::int64_t packed_index(std::int64_t b, std::int64_t head_kv, std::int64_t tile) const {
    return first_packed[static_cast<std::size_t>(b)] + head_kv * key_tiles(b) + tile;
  }
  Rows q(std::int64_t b, std::int64_t h) const { return rows_of(tensors.q, b, sequences[b].q_begin, h); }
  Rows out(std::int64_t b, std::int64_t h) const { return rows_of(tensors.out, b, sequences[b].q_begin, h); }
  Rows keys(const TensorView& view, std::int64_t b, std::int64_t h) const {
    return problem.paged() ? paged_rows_of(view, tensors.block_table, b, h) : rows_of(view, b, sequences[b].k_begin, h);
  }
  const KeySum& key_sum(std::int64_t b, std::int64_t h) const {
    return key_sums[static_cast<std::size_t>(b * problem.heads_kv + h)];
  }
  /// Element of softmax_lse or dlse for query i.
  float* lse(const TensorView& view, std::int64_t b, std::int64_t h, std::int64_t i) const;
};

/// A tile of query rows. Row r of (sequence, key/value head) is query r / group of query head r % group of the group: all
/// heads that share keys share a tile, and gradients of keys are summed over the group by being summed over rows.
struct Task {
  std::int64_t sequence = 0;
  std::int64_t head_kv = 0;  // the first of `heads`
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  std::int64_t key_begin = 0;  // multiples of tile_n
  std::int64_t key_end = 0;
  std::int64_t split = -1;  // -1: the only one
  std::int64_t index = 0;   // in the order of execution
  std::int64_t heads = 1;   // key/value heads: several only for decode
};

/// Keys that any row of the task sees, inside [key_begin, key_end), begin rounded down to a multiple of tile_n.
KeyRange task_keys(const Call& call, const Task& task);

/// Hands rows of key tiles from one task to the next in the order of execution, so that sums are the same in every run.
class Turnstile {
 public:
  virtual ~Turnstile() = default;
  virtual void wait(const Task& task, std::int64_t key_tile) = 0;
  virtual void pass(const Task& task, std::int64_t key_tile) = 0;
};

/// One instruction set.
struct Kernels {
  std::string_view name;  // "avx3"
  std::int64_t lanes;     // fp32 elements of a vector
  void (*forward)(const Call& call, const Task& task, Arena arena);
  void (*decode)(const Call& call, const Task& task, Arena arena);
  KeyTile (*pack)(const Call& call, std::int64_t sequence, std::int64_t head_kv, std::int64_t tile, float* k, float* v);
  std::int64_t (*packed_floats)(std::int64_t tile_n, std::int64_t dim);  // of one tile of K or V
  void (*merge)(const Call& call, const Task& task, Arena arena);        // split results of the task's rows
  void (*backward)(const Call& call, const Task& task, Arena arena, Turnstile& turnstile);
  void (*convert_rows)(const Rows& from, const Rows& to, std::int64_t count, std::int64_t dim);  // fp32 to any type
  std::size_t (*scratch_bytes)(const Problem& problem, const CpuPlan& plan);                     // of one worker
};

inline constexpr double kLog2e = 1.4426950408889634;
inline constexpr double kLn2 = 0.6931471805599453;
/// Logits times log2(e) are finite up to here (docs/semantics.md, "Very large logits").
inline constexpr float kLargestLogit = 0x1p126f;

constexpr std::int64_t round_up(std::int64_t x, std::int64_t to) { return (x + to - 1) / to * to; }

}  // namespace splitq::cpu
