// How it will be done: a plain value made from a Problem and an Execution. The backend runs it without deciding anything more.
#pragma once

#include <cstdint>
#include <string>

#include "problem/problem.hpp"
#include "splitq/splitq.hpp"

namespace splitq {

enum class CpuKernel : std::int32_t {
  kTile,    // FlashAttention-2's loop over tiles, one query row per SIMD lane
  kDecode,  // few query rows: lanes along the head dimension, keys split over workers
};

/// Tiles of the CPU backend, in rows of q (a row is one query of one head of the group) and keys.
struct CpuPlan {
  std::string instruction_set;  // "avx3", ...
  CpuKernel kernel = CpuKernel::kTile;
  std::int64_t tile_m = 0;      // query rows
  std::int64_t tile_n = 0;      // keys
  std::int64_t num_splits = 1;  // of the keys
  int threads = 1;
  Schedule schedule{};
  bool operator==(const CpuPlan&) const = default;
};

struct ExecutionPlan {
  DeviceKind device = DeviceKind::kCpu;
  CpuPlan cpu{};
  std::size_t workspace_bytes = 0;
  bool operator==(const ExecutionPlan&) const = default;
};

/// A plan, or the reason why there is none.
Status select(const Problem& problem, const Execution& execution, ExecutionPlan* plan);

std::string to_string(const ExecutionPlan& plan);

}  // namespace splitq
