#include "cpu/run.hpp"

#include "cpu/instruction_sets.hpp"
#include "cpu/key_sums.hpp"
#include "cpu/packed_keys.hpp"
#include "cpu/run_direction.hpp"

namespace splitq::cpu {
void run(const Problem& problem, const Tensors& tensors, const CpuPlan& plan) {
  Call call{.problem = problem,
            .tensors = tensors,
            .plan = plan,
            .sequences = {},
            .packed = {},
            .first_packed = {},
            .first_partial = {},
            .key_sums = {}};
  for (std::int64_t b = 0; b < problem.batch; ++b) call.sequences.push_back(sequence(problem, tensors, b));
  call.dropout = dropout_stream(problem.seed, problem.offset, problem.dropout);
  const Kernels& kernels = find_instruction_set(plan.instruction_set)->kernels();
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
  bytes += PackedKeys::bytes(problem, plan, kernels);
  const auto elements = [](const TensorInfo& t) {
    std::size_t count = t.given() ? 1 : 0;
    for (int d = 0; d < t.rank; ++d) count *= static_cast<std::size_t>(t.shape[d]);
    return count;
  };
  if (problem.direction == Direction::kBackward) {
    const TensorInfo& dbias = problem.tensors.dbias;
    if (dbias.given() && dbias.dtype != DType::kFp32) bytes += elements(dbias) * sizeof(float);
    bytes += KeySums::bytes(problem, plan);
  } else if (plan.split_keys > 0) {
    const std::int64_t splits = (problem.max_seqlen_k + plan.split_keys - 1) / plan.split_keys;
    const std::int64_t rows = problem.packed_q() ? problem.max_seqlen_q : problem.batch * problem.max_seqlen_q;
    bytes += static_cast<std::size_t>(splits * rows * problem.heads_q * (problem.head_dim_v + 2)) * sizeof(float);
  }
  return bytes;
}

}  // namespace splitq::cpu
