#include "cpu/run.hpp"

#include "cpu/instruction_sets.hpp"
#include "cpu/memory.hpp"
#include "cpu/parallel.hpp"
#include "cpu/run_direction.hpp"

namespace splitq::cpu {
namespace {

/// Floats of one packed tile of K and V together.
std::int64_t packed_tile_floats(const Problem& p, const CpuPlan& plan, const Kernels& kernels) {
  return kernels.packed_floats(plan.tile_n, p.head_dim) + kernels.packed_floats(plan.tile_n, p.head_dim_v);
}

/// Converts K and V to tiles; the tiles lie in the memory that is returned.
Memory pack_keys(Call& call, const Kernels& kernels) {
  if (!call.plan.pack_keys) return {};
  struct Place {
    std::int64_t sequence, head_kv, tile;
  };
  std::vector<Place> places;
  for (std::size_t b = 0; b < call.sequences.size(); ++b) {
    const auto sequence = static_cast<std::int64_t>(b);
    call.first_packed.push_back(static_cast<std::int64_t>(places.size()));
    for (std::int64_t h = 0; h < call.problem.heads_kv; ++h) {
      for (std::int64_t t = 0; t < call.key_tiles(sequence); ++t) places.push_back({sequence, h, t});
    }
  }
  const std::int64_t k_floats = kernels.packed_floats(call.plan.tile_n, call.problem.head_dim);
  const std::int64_t floats = packed_tile_floats(call.problem, call.plan, kernels);
  Memory memory = allocate(places.size() * static_cast<std::size_t>(floats) * sizeof(float));
  call.packed.resize(places.size());
  for_each_task(call.plan.threads, static_cast<std::int64_t>(places.size()), [&](int, std::int64_t i) {
    float* k = reinterpret_cast<float*>(memory.get()) + i * floats;
    call.packed[i] = kernels.pack(call, places[i].sequence, places[i].head_kv, places[i].tile, k, k + k_floats);
  });
  return memory;
}

}  // namespace

void run(const Problem& problem, const Tensors& tensors, const CpuPlan& plan) {
  Call call{.problem = problem,
            .tensors = tensors,
            .plan = plan,
            .sequences = {},
            .packed = {},
            .first_packed = {},
            .first_partial = {}};
  for (std::int64_t b = 0; b < problem.batch; ++b) call.sequences.push_back(sequence(problem, tensors, b));
  call.dropout = dropout_stream(problem.seed, problem.offset, problem.dropout);
  const Kernels& kernels = find_instruction_set(plan.instruction_set)->kernels();
  const Memory packed = pack_keys(call, kernels);
  if (problem.direction == Direction::kForward) {
    run_forward(call, kernels);
  } else {
    run_backward(call, kernels);
  }
}

std::size_t workspace_bytes(const Problem& problem, const CpuPlan& plan) {
  const Kernels& kernels = find_instruction_set(plan.instruction_set)->kernels();
  const auto scratch =
      static_cast<std::size_t>(round_up(static_cast<std::int64_t>(kernels.scratch_bytes(problem, plan)), 4096));
  std::size_t bytes = scratch * static_cast<std::size_t>(plan.threads);
  if (plan.pack_keys) {
    // Sequences end in tiles of their own.
    const std::int64_t rows = problem.packed_k() ? problem.max_seqlen_k : problem.batch * problem.max_seqlen_k;
    const std::int64_t tiles = rows / plan.tile_n + problem.batch;
    bytes +=
        static_cast<std::size_t>(tiles * problem.heads_kv * packed_tile_floats(problem, plan, kernels)) * sizeof(float);
  }
  const auto elements = [](const TensorInfo& t) {
    std::size_t count = t.given() ? 1 : 0;
    for (int d = 0; d < t.rank; ++d) count *= static_cast<std::size_t>(t.shape[d]);
    return count;
  };
  if (problem.direction == Direction::kBackward) {
    for (const TensorInfo* t : {&problem.tensors.dk, &problem.tensors.dv, &problem.tensors.dbias}) {
      if (t->given() && t->dtype != DType::kFp32) bytes += elements(*t) * sizeof(float);
    }
  } else if (plan.split_keys > 0) {
    const std::int64_t splits = (problem.max_seqlen_k + plan.split_keys - 1) / plan.split_keys;
    const std::int64_t rows = problem.packed_q() ? problem.max_seqlen_q : problem.batch * problem.max_seqlen_q;
    bytes += static_cast<std::size_t>(splits * rows * problem.heads_q * (problem.head_dim_v + 2)) * sizeof(float);
  }
  return bytes;
}

}  // namespace splitq::cpu
