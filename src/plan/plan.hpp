// How it will be done: a plain value made from a Problem and an Execution. The backend runs it without deciding anything more.
#pragma once

#include <cstdint>
#include <string>

#include "problem/problem.hpp"
#include "splitq/splitq.hpp"

namespace splitq {

/// The CPU backend's choices. Rows are rows of a tile: a query of one head of the group (all heads that share keys).
/// What a result depends on does not depend on the number of threads.
struct CpuPlan {
  std::string instruction_set;  // "avx3", ...
  std::int64_t tile_m = 0;      // rows
  std::int64_t tile_n = 0;      // keys
  std::int64_t decode_rows =
      0;  // sequences of at most so many rows run the decode kernel: lanes along the head dimension
  std::int64_t decode_heads = 1;  // key/value heads of one such task: all that lie side by side in a row of the cache
  std::int64_t split_keys = 0;    // keys of one split, a multiple of tile_n; 0: keys are not split
  std::int64_t pack_heads = 0;  // K and V become tiles once for all query tiles, so many heads at a time; 0: not at all
  int threads = 1;
  Schedule schedule{};
  bool operator==(const CpuPlan&) const = default;
};

/// A GPU's choices, and the emulator's: which kernel, compiled for what, launched how.
struct GpuPlan {
  std::string architecture;      // "sm_90a"; the emulator: "sm_80", as which it computes
  std::string kernel;            // its name, as C++
  int threads = 0;               // of a block
  std::size_t shared_bytes = 0;  // of a block
  std::int64_t blocks = 0;
  bool operator==(const GpuPlan&) const = default;
};

struct ExecutionPlan {
  Device device{};  // of one kind, kAuto no longer
  CpuPlan cpu{};    // on the CPU
  GpuPlan gpu{};    // elsewhere
  std::size_t workspace_bytes = 0;
  bool operator==(const ExecutionPlan&) const = default;
};

/// A plan, or the reason why there is none. Of the tensors it takes the addresses alone: some kernels need them aligned.
Status select(const Problem& problem, const Tensors& tensors, const Execution& execution, ExecutionPlan* plan);

/// "cpu/avx3", "cuda:0/sm_90a", "emulator/sm_80".
std::string backend_name(const ExecutionPlan& plan);

std::string to_string(const ExecutionPlan& plan);

}  // namespace splitq
