// A forward kernel in the emulator, on a case's tensors, launched as a GPU's is.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "emulator/emulator.hpp"
#include "gpu/forward_launch.hpp"
#include "sm80/forward.hpp"
#include "support/run_case.hpp"
#include "support/seed.hpp"

namespace splitq::testing {

using sm80::Config;
using sm80::Element;
using sm80::Rescale;

/// From the first to the last element in memory.
inline emulator::MemoryRange range_of(const char* name, const TensorView& t, bool written) {
  std::int64_t low = 0, high = 1;
  for (int d = 0; d < t.rank; ++d) {
    if (t.shape[d] == 0) return {name, t.data, 0, written};
    const std::int64_t last = (t.shape[d] - 1) * t.strides[d];
    (last < 0 ? low : high) += last;
  }
  const auto bytes = static_cast<std::int64_t>(size_of(t.dtype));
  return {name, static_cast<const std::byte*>(t.data) + low * bytes, static_cast<std::size_t>((high - low) * bytes),
          written};
}

/// What the host would choose, but for the tiles: tests take small ones, so that small problems have edges. Kernels of sequences,
/// bands, odd sizes and unaligned rows compute the rest as well.
inline void expect_fits(const Config& kernel, Config chosen) {
  Config expected = kernel;
  expected.padded &= chosen.padded, expected.banded &= chosen.banded, expected.indexed &= chosen.indexed;
  expected.aligned |= chosen.aligned;
  chosen.tile_m = kernel.tile_m, chosen.tile_n = kernel.tile_n, chosen.warps = kernel.warps;
  chosen.min_blocks = kernel.min_blocks, chosen.stages = kernel.stages, chosen.rescale = kernel.rescale;
  if (kernel.pack_group || chosen.pack_group) chosen.pack_group = kernel.pack_group;  // a matter of speed alone
  EXPECT_EQ(chosen.element, expected.element);
  EXPECT_EQ(chosen.head_dim, expected.head_dim);
  EXPECT_EQ(chosen.head_dim_v, expected.head_dim_v);
  EXPECT_EQ(chosen.padded, expected.padded);
  EXPECT_EQ(chosen.aligned, expected.aligned);
  EXPECT_EQ(chosen.banded, expected.banded);
  EXPECT_EQ(chosen.scaled, expected.scaled);
  EXPECT_EQ(chosen.softcap, expected.softcap);
  EXPECT_EQ(chosen.alibi, expected.alibi);
  EXPECT_EQ(chosen.bias, expected.bias);
  EXPECT_EQ(chosen.mask, expected.mask);
  EXPECT_EQ(chosen.dropout, expected.dropout);
  EXPECT_EQ(chosen.indexed, expected.indexed);
}

inline constexpr std::size_t kSharedBytes = std::size_t{163} << 10;  // sm_80

/// A call as the host sees it.
struct Described {
  Problem problem;
  Tensors tensors;
};

inline void describe(CallTensors& call, Described* d) {
  const Status status = make_problem(call.forward(), call.options, &d->problem);
  ASSERT_TRUE(status.ok()) << status.message;
  d->tensors = gather(call.forward(), call.options);
}

/// Launches `kernel` `runs` times in either completion mode, each in another interleaving: all clean, all with the same bits.
template <class Config, class Kernel>
void emulate(CallTensors& call, const Described& d, const Config& config, bool transformed, int runs, Kernel kernel) {
  const ForwardParams params = gpu::forward_params(d.problem, d.tensors, transformed);
  const gpu::Kernel shape = gpu::forward_kernel(config);
  emulator::Launch launch{.grid = {static_cast<unsigned>(gpu::forward_blocks(d.problem, config)), 1, 1},
                          .threads = shape.threads,
                          .shared_bytes = shape.shared_bytes};
  for_each_tensor(d.tensors, [&](const char* name, const TensorView& t) {
    const bool written = t.data == d.tensors.out.data || t.data == d.tensors.softmax_lse.data;
    if (t.given()) launch.memory.push_back(range_of(name, t, written));
  });

  std::vector<std::byte> out, softmax_lse;
  for (int run = 0; run < runs; ++run) {
    for (const auto completion : {emulator::Completion::kAtOnce, emulator::Completion::kLate}) {
      launch.completion = completion;
      launch.seed = next_seed();
      const emulator::Report report = emulator::run(launch, [&] { kernel(params); });
      ASSERT_TRUE(report.clean()) << report.to_string() << "\n(interleaving from " << launch.seed << ")";
      if (!out.empty()) {
        EXPECT_TRUE(out == call.out.bytes()) << "the order of threads shows in out";
        EXPECT_TRUE(softmax_lse == call.softmax_lse.bytes()) << "the order of threads shows in softmax_lse";
      }
      out = call.out.bytes(), softmax_lse = call.softmax_lse.bytes();
    }
  }
}

template <Config kConfig>
void emulate(CallTensors& call, int runs = 1) {
  Described d;
  describe(call, &d);
  if (::testing::Test::HasFatalFailure()) return;
  gpu::ForwardLaunch launch;
  const Status supported = gpu::make_forward_launch(d.problem, d.tensors, kSharedBytes, &launch);
  ASSERT_TRUE(supported.ok()) << supported.message;
  ASSERT_EQ(launch.header, "sm80/forward.hpp");
  expect_fits(kConfig, gpu::choose_config(d.problem, d.tensors, kSharedBytes));
  emulate(call, d, kConfig, kConfig.transformed(), runs, sm80::forward<kConfig>);
}

/// The kernel gives the oracle's answer.
template <Config kConfig>
void expect_kernel(AttentionCase c, const std::function<void(oracle::Problem&)>& edit = {}) {
  c.dtype = kConfig.element == Element::kFp16 ? DType::kFp16 : DType::kBf16;
  c.backward = false;
  expect_accurate(c, edit, [](const AttentionCase&, CallTensors& tensors) { emulate<kConfig>(tensors); });
}

/// 70 queries and 90 keys: three tiles of either in small tiles, the last of each not full.
inline AttentionCase small_case(std::int64_t head_dim = 64, std::int64_t head_dim_v = 0) {
  AttentionCase c;
  c.batch = 2, c.heads_q = 2, c.heads_kv = 1;
  c.seqlen_q = 70, c.seqlen_k = 90;
  c.head_dim = head_dim, c.head_dim_v = head_dim_v;
  // Flat weights: where one key has most of a row, a single rounding of it is all of the error, and too few draw a bad one.
  c.scale = 0.5 / std::sqrt(static_cast<double>(head_dim));
  return c;
}

/// Small tiles.
constexpr Config small_config(Element element, int head_dim = 64, int head_dim_v = 0) {
  return {.element = element,
          .head_dim = head_dim,
          .head_dim_v = head_dim_v == 0 ? head_dim : head_dim_v,
          .tile_m = 32,
          .tile_n = 32,
          .warps = 2};
}

}  // namespace splitq::testing
