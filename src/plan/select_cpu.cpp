// What the CPU does with a problem.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "cpu/instruction_sets.hpp"
#include "cpu/parallel.hpp"
#include "cpu/run.hpp"
#include "plan/select.hpp"

namespace splitq {
namespace {

constexpr std::int64_t kTileKeys = 64;     // keys of a tile: their P stays in the first-level cache
constexpr std::int64_t kPanelVectors = 3;  // of a panel of rows (cpu/simd: kTileVecs)
constexpr std::int64_t kTileBytes =
    320 * 1024;  // of a tile's rows: beside K and V, within a second-level cache of 512 KiB
constexpr std::int64_t kMostRows = 384;
constexpr std::int64_t kMostRowsBackward = 192;
constexpr std::int64_t kTasksOfThread = 4;
constexpr std::int64_t kDecodeRows = 8;    // up to here the decode kernel is faster
constexpr std::int64_t kDecodeHeads = 16;  // at most so many share a task
constexpr std::int64_t kPackTiles = 4;     // query tiles from which on K and V are packed
constexpr std::int64_t kPackTasksOfThread = 16;
constexpr std::int64_t kSplitKeys = 1024;  // a split shorter than this costs more in merging than it gains
constexpr std::int64_t kEnoughTasks = 64;  // more need no splitting

std::string names_of_instruction_sets() {
  std::string names;
  for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
    if (set.available) names += (names.empty() ? "" : ", ") + std::string(set.name);
  }
  return names;
}

/// Largest number of rows that one key/value head of one sequence can have.
std::int64_t most_rows(const Problem& p) { return p.max_seqlen_q * p.group(); }

/// Rows of a tile: as many as the cache holds, so that K and V are read seldom, and as few as give every thread work. In forward a
/// row's result does not depend on the tile it is in, and the number of threads may decide; in backward the order of sums does.
std::int64_t choose_tile_m(const Problem& p, std::int64_t lanes, int threads) {
  const bool forward = p.direction == Direction::kForward;
  const std::int64_t width = kPanelVectors * lanes;
  // Floats of one row: Q and O, in backward Q and dO twice, and dQ.
  const std::int64_t floats = forward ? p.head_dim + p.head_dim_v : 3 * p.head_dim + 2 * p.head_dim_v;
  const std::int64_t bytes = floats * width * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t most = std::max<std::int64_t>(1, (forward ? kMostRows : kMostRowsBackward) / width);
  std::int64_t rows = std::clamp<std::int64_t>(kTileBytes / bytes, 1, most) * width;
  rows = std::min(rows, std::max<std::int64_t>(1, (most_rows(p) + width - 1) / width) * width);
  const std::int64_t wanted = forward ? kTasksOfThread * threads : kEnoughTasks / 4;
  while (rows > width && p.batch * p.heads_kv * ((most_rows(p) + rows - 1) / rows) < wanted) rows -= width;
  return rows;
}

/// Lanes along the head dimension need keys and values whose elements are neighbours.
bool can_decode(const Problem& p) {
  return p.direction == Direction::kForward && p.tensors.k.strides[p.tensors.k.rank - 1] == 1 &&
         p.tensors.v.strides[p.tensors.v.rank - 1] == 1;
}

/// Heads that one decode task reads together: those of one row where heads are closer than rows, so that memory is read in
/// the order in which it lies.
std::int64_t heads_side_by_side(const Problem& p) {
  const TensorInfo& k = p.tensors.k;
  const bool inside_rows = std::abs(k.strides[k.rank - 2]) < std::abs(k.strides[k.rank - 3]);
  return inside_rows ? std::min(p.heads_kv, kDecodeHeads) : 1;
}

/// Rows that one key/value head of a sequence has, on average where sequences are packed.
std::int64_t usual_rows(const Problem& p) {
  return p.packed_q() ? std::max<std::int64_t>(1, most_rows(p) / std::max<std::int64_t>(1, p.batch)) : most_rows(p);
}

std::int64_t choose_split_keys(const Problem& p, const Execution& execution, const CpuPlan& plan) {
  if (p.direction == Direction::kBackward) return 0;
  if (execution.num_splits > 0) {
    const std::int64_t keys = (p.max_seqlen_k + execution.num_splits - 1) / execution.num_splits;
    return execution.num_splits == 1 ? 0 : std::max(plan.tile_n, cpu::round_up(keys, plan.tile_n));
  }
  if (plan.schedule != Schedule{}) return 0;
  const std::int64_t rows = usual_rows(p);
  const std::int64_t heads = most_rows(p) <= plan.decode_rows ? p.heads_kv / plan.decode_heads : p.heads_kv;
  const std::int64_t tasks = p.batch * heads * ((rows + plan.tile_m - 1) / plan.tile_m);
  return tasks < kEnoughTasks && p.max_seqlen_k >= 2 * kSplitKeys ? kSplitKeys : 0;
}

/// Rows of one head lie apart, and reading them again for every query tile costs 10 to 14 % of the time: where enough query tiles
/// read each key tile, it is converted once. Few heads at a time bound the memory; their tasks must occupy every thread.
std::int64_t choose_pack_heads(const Problem& p, const CpuPlan& plan) {
  const std::int64_t tiles = usual_rows(p) / plan.tile_m;
  if (tiles < kPackTiles) return 0;
  // In backward threads on one head would wait for one another at every key tile.
  const std::int64_t fewest = p.direction == Direction::kBackward ? plan.threads : 1;
  const std::int64_t wanted = std::max(fewest, kPackTasksOfThread * plan.threads / tiles);
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, p.batch * p.heads_kv));
}

}  // namespace

Status select_cpu(const Problem& p, const Execution& execution, CpuPlan* plan) {
  std::string_view name = execution.instruction_set;
  if (name.empty()) name = cpu::forced_instruction_set();
  const cpu::InstructionSet* set = name.empty() ? &cpu::best_instruction_set() : cpu::find_instruction_set(name);
  if (set == nullptr || !set->available) {
    return Status::unsupported(fmt::format("instruction_set: \"{}\" (from {}); this machine has {}", name,
                                           execution.instruction_set.empty() ? "SPLITQ_INSTRUCTION_SET" : "the call",
                                           names_of_instruction_sets()));
  }
  if (execution.threads < 0) {
    return Status::invalid(
        fmt::format("threads: {}; must be 0 (all that the process may use) or more", execution.threads));
  }
  if (execution.num_splits < 0) {
    return Status::invalid(fmt::format("num_splits: {}; must be 0 (chosen) or more", execution.num_splits));
  }
  plan->instruction_set = set->name;
  plan->threads = execution.threads > 0 ? execution.threads : cpu::available_threads();
  plan->schedule = execution.schedule;
  plan->tile_n = kTileKeys;
  plan->tile_m = choose_tile_m(p, set->kernels().lanes, plan->threads);
  plan->decode_rows = can_decode(p) && execution.schedule == Schedule{} ? kDecodeRows : 0;
  plan->decode_heads = heads_side_by_side(p);
  plan->pack_heads = choose_pack_heads(p, *plan);
  plan->split_keys = choose_split_keys(p, execution, *plan);
  return {};
}

}  // namespace splitq
