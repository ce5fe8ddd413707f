#include "cpu/packed_keys.hpp"

#include <algorithm>

#include "cpu/parallel.hpp"

namespace splitq::cpu {
namespace {

/// Floats of one packed tile of K and V together.
std::int64_t tile_floats(const Problem& p, const CpuPlan& plan, const Kernels& kernels) {
  return kernels.packed_floats(plan.tile_n, p.head_dim) + kernels.packed_floats(plan.tile_n, p.head_dim_v);
}

}  // namespace

PackedKeys::PackedKeys(Call& call, const Kernels& kernels) : call_(call), kernels_(kernels) {
  const CpuPlan& plan = call.plan;
  if (plan.pack_heads == 0) return;
  const std::int64_t heads = call.problem.heads_kv;
  const std::int64_t all = static_cast<std::int64_t>(call.sequences.size()) * heads;
  rounds_ = (all + plan.pack_heads - 1) / plan.pack_heads;
  std::int64_t tiles = 0;
  for (std::size_t b = 0; b < call.sequences.size(); ++b) {
    call.first_packed.push_back(tiles);
    tiles += call.key_tiles(static_cast<std::int64_t>(b)) * heads;
  }
  const std::int64_t most = most_of_round([&](std::int64_t b) { return call.key_tiles(b); });
  call.packed.resize(static_cast<std::size_t>(tiles));
  memory_ = allocate(static_cast<std::size_t>(most * tile_floats(call.problem, plan, kernels)) * sizeof(float));
}

std::int64_t PackedKeys::round_of(const Task& task) const {
  if (call_.plan.pack_heads == 0) return 0;
  return (task.sequence * call_.problem.heads_kv + task.head_kv) / call_.plan.pack_heads;
}

PackedKeys::Pairs PackedKeys::pairs(std::int64_t round) const {
  const std::int64_t all = static_cast<std::int64_t>(call_.sequences.size()) * call_.problem.heads_kv;
  const std::int64_t heads = call_.plan.pack_heads > 0 ? call_.plan.pack_heads : all;
  return {round * heads, std::min(all, (round + 1) * heads)};
}

void PackedKeys::pack(std::int64_t round) {
  const CpuPlan& plan = call_.plan;
  if (plan.pack_heads == 0) return;
  struct Place {
    std::int64_t sequence, head_kv, tile;
  };
  std::vector<Place> places;
  const std::int64_t heads = call_.problem.heads_kv;
  for (std::int64_t i = pairs(round).begin; i < pairs(round).end; ++i) {
    for (std::int64_t t = 0; t < call_.key_tiles(i / heads); ++t) places.push_back({i / heads, i % heads, t});
  }
  const std::int64_t k_floats = kernels_.packed_floats(plan.tile_n, call_.problem.head_dim);
  const std::int64_t floats = tile_floats(call_.problem, plan, kernels_);
  for_each_task(plan.threads, static_cast<std::int64_t>(places.size()), [&](int, std::int64_t i) {
    const Place& at = places[static_cast<std::size_t>(i)];
    float* k = reinterpret_cast<float*>(memory_.get()) + i * floats;
    call_.packed[static_cast<std::size_t>(call_.packed_index(at.sequence, at.head_kv, at.tile))] =
        kernels_.pack(call_, at.sequence, at.head_kv, at.tile, k, k + k_floats);
  });
}

std::size_t PackedKeys::bytes(const Problem& problem, const CpuPlan& plan, const Kernels& kernels) {
  if (plan.pack_heads == 0) return 0;
  // One round has no more keys than its heads have in the longest sequence, or in all of them packed.
  const std::int64_t tiles =
      (problem.max_seqlen_k + plan.tile_n - 1) / plan.tile_n + (problem.packed_k() ? problem.batch : 0);
  return static_cast<std::size_t>(plan.pack_heads * tiles * tile_floats(problem, plan, kernels)) * sizeof(float);
}

}  // namespace splitq::cpu
