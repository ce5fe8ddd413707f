// A forward kernel of the sm80 family in the emulator, called with a case's tensors.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "emulator/emulator.hpp"
#include "launches.hpp"
#include "problem/problem.hpp"
#include "sm80/forward.hpp"
#include "support/run_case.hpp"
#include "support/seed.hpp"

namespace splitq::emulator::testing {

using splitq::testing::AttentionCase;
using splitq::testing::CallTensors;

/// (B, S, H, D) or packed (rows, H, D).
inline TensorStrides strides_of(const TensorView& t) {
  if (t.rank == 4) return {t.strides[0], t.strides[1], t.strides[2]};
  return {0, t.strides[0], t.strides[1]};
}

inline BroadcastStrides broadcast_strides_of(const TensorView& t) {
  const auto stride = [&](int d) { return t.shape[d] == 1 ? 0 : t.strides[d]; };
  return {stride(0), stride(1), stride(2), stride(3)};
}

inline IndexArray index_array(const TensorView& t) { return {t.data, t.dtype == DType::kInt64 ? 1 : 0}; }

inline ForwardParams forward_params(const Problem& problem, const Tensors& t) {
  constexpr float kLog2e = 1.4426950408889634f;
  ForwardParams p{};
  p.q = t.q.data, p.k = t.k.data, p.v = t.v.data, p.out = t.out.data;
  p.q_stride = strides_of(t.q), p.k_stride = strides_of(t.k), p.v_stride = strides_of(t.v);
  p.out_stride = strides_of(t.out);
  p.softmax_lse = static_cast<float*>(t.softmax_lse.data);
  const auto& lse = t.softmax_lse;
  p.lse_stride = lse.rank == 3 ? TensorStrides{lse.strides[0], lse.strides[2], lse.strides[1]}
                               : TensorStrides{0, lse.strides[1], lse.strides[0]};
  p.batch = static_cast<int>(problem.batch);
  p.heads_q = static_cast<int>(problem.heads_q), p.heads_kv = static_cast<int>(problem.heads_kv);
  p.group = static_cast<int>(problem.group());
  p.head_dim = static_cast<int>(problem.head_dim), p.head_dim_v = static_cast<int>(problem.head_dim_v);
  p.seqlen_q = problem.max_seqlen_q, p.seqlen_k = problem.max_seqlen_k;
  p.window_left = problem.window_left, p.window_right = problem.window_right;
  p.scale = static_cast<float>(problem.scale);
  const bool transformed = problem.softcap != 0 || t.bias.given() || t.alibi_slopes.given();
  p.unit = transformed ? kLog2e : p.scale * kLog2e;
  p.softcap = static_cast<float>(problem.softcap);
  p.alibi_slopes = static_cast<const float*>(t.alibi_slopes.data);
  if (t.alibi_slopes.rank == 2) p.alibi_batch_stride = t.alibi_slopes.strides[0];
  if (t.alibi_slopes.given()) p.alibi_head_stride = t.alibi_slopes.strides[t.alibi_slopes.rank - 1];
  p.bias = t.bias.data;
  if (t.bias.given()) p.bias_stride = broadcast_strides_of(t.bias);
  p.bias_is_fp32 = t.bias.dtype == DType::kFp32 ? 1 : 0;
  p.mask = static_cast<const unsigned char*>(t.mask.data);
  if (t.mask.given()) p.mask_stride = broadcast_strides_of(t.mask);
  p.sink = static_cast<const float*>(t.sink.data);
  p.sink_stride = t.sink.given() ? t.sink.strides[0] : 0;
  p.dropout = dropout_stream(problem.seed, problem.offset, problem.dropout);
  p.dropout_factor = static_cast<float>(1.0 / (1.0 - problem.dropout));
  p.cu_seqlens_q = index_array(t.cu_seqlens_q), p.cu_seqlens_k = index_array(t.cu_seqlens_k);
  p.seqlens_q = index_array(t.seqlens_q), p.seqlens_k = index_array(t.seqlens_k);
  return p;
}

/// From the first to the last element of a tensor in memory.
inline MemoryRange range_of(const char* name, const TensorView& t, bool written) {
  std::int64_t low = 0, high = 0;
  for (int d = 0; d < t.rank; ++d) {
    if (t.shape[d] == 0) return {name, t.data, 0, written};
    const std::int64_t last = (t.shape[d] - 1) * t.strides[d];
    (last < 0 ? low : high) += last;
  }
  const std::int64_t bytes = size_of(t.dtype);
  return {name, static_cast<const std::byte*>(t.data) + low * bytes, static_cast<std::size_t>((high - low + 1) * bytes),
          written};
}

template <sm80::Config kConfig>
Report run_forward(CallTensors& call, Completion completion, std::uint64_t seed) {
  Problem problem;
  const Status status = make_problem(call.forward(), call.options, &problem);
  EXPECT_TRUE(status.ok()) << status.message;
  const Tensors tensors = gather(call.forward(), call.options);
  const ForwardParams params = forward_params(problem, tensors);

  const std::int64_t rows = problem.max_seqlen_q * (kConfig.pack_group ? problem.group() : 1);
  const std::int64_t tiles = (rows + kConfig.tile_m - 1) / kConfig.tile_m;
  const std::int64_t heads = kConfig.pack_group ? problem.heads_kv : problem.heads_q;
  Launch launch{.grid = {static_cast<unsigned>(tiles * heads * problem.batch), 1, 1},
                .threads = static_cast<unsigned>(kConfig.threads()),
                .shared_bytes = static_cast<std::size_t>(sm80::smem_layout(kConfig).bytes),
                .completion = completion,
                .seed = seed};
  for_each_tensor(tensors, [&](const char* name, const TensorView& t) {
    const bool written = t.data == tensors.out.data || t.data == tensors.softmax_lse.data;
    if (t.given()) launch.memory.push_back(range_of(name, t, written));
  });
  return run(launch, [&] { sm80::forward<kConfig>(params); });
}

/// The kernel gives the oracle's answer, cleanly, in both completion modes and in random interleavings.
template <sm80::Config kConfig>
void expect_forward(const AttentionCase& c) {
  const std::uint64_t seed = splitq::testing::next_seed();
  const oracle::Problem inputs = splitq::testing::make_inputs(c, seed);
  for (const Completion completion : {Completion::kAtOnce, Completion::kLate}) {
    SCOPED_TRACE(to_string(c) + " (inputs and interleaving from " + std::to_string(seed) + ")" +
                 (completion == Completion::kLate ? " late" : " at once"));
    CallTensors call(c, inputs);
    expect_clean(run_forward<kConfig>(call, completion, seed));
    EXPECT_TRUE(accurate(c, inputs, results_of(call)));
    EXPECT_TRUE(call.out.guards_intact() && call.softmax_lse.guards_intact());
  }
}

}  // namespace splitq::emulator::testing
