// What a valid call becomes.
#include <gtest/gtest.h>

#include <cmath>

#include "problem/call.hpp"

namespace splitq::testing {
namespace {

Problem checked(const Call& call) {
  Problem problem;
  const Status status = call.check(&problem);
  EXPECT_TRUE(status.ok()) << status.message;
  return problem;
}

TEST(ProblemTest, Sizes) {
  const Problem p = checked(Call(Direction::kBackward));
  EXPECT_EQ(p.direction, Direction::kBackward);
  EXPECT_EQ(p.device, (Device{DeviceKind::kCpu, 0}));
  EXPECT_EQ(p.batch, kB);
  EXPECT_EQ(p.heads_q, kHq);
  EXPECT_EQ(p.heads_kv, kHkv);
  EXPECT_EQ(p.group(), 2);
  EXPECT_EQ(p.head_dim, kD);
  EXPECT_EQ(p.head_dim_v, kDv);
  EXPECT_EQ(p.max_seqlen_q, kSq);
  EXPECT_EQ(p.max_seqlen_k, kSk);
  EXPECT_EQ(p.scale, 1 / std::sqrt(8.0));
  EXPECT_FALSE(p.paged() || p.packed_q() || p.packed_k());
}

TEST(ProblemTest, PackedSizes) {
  Call call(Direction::kBackward);
  call.pack();
  const Problem p = checked(call);
  EXPECT_EQ(p.batch, 2);
  EXPECT_EQ(p.max_seqlen_q, kSq);
  EXPECT_EQ(p.max_seqlen_k, kSk);
  EXPECT_TRUE(p.packed_q() && p.packed_k());
  const Sequence s = sequence(p, call.tensors(), 1);
  EXPECT_EQ(s.q_begin, 2);
  EXPECT_EQ(s.k_begin, 3);
  EXPECT_EQ(s.seqlen_q, 3);
  EXPECT_EQ(s.seqlen_k, 4);
}

TEST(ProblemTest, PagedSizes) {
  Call call(Direction::kForward);
  call.page();
  const Problem p = checked(call);
  EXPECT_EQ(p.page_size, 4);
  EXPECT_EQ(p.max_seqlen_k, 8);
  EXPECT_TRUE(check_indices(p, call.tensors()).ok());
  EXPECT_EQ(sequence(p, call.tensors(), 0).seqlen_k, 7);
}

TEST(ProblemTest, PackedQueriesBesidePages) {
  Call call(Direction::kForward);
  call.pack();
  call.options.cu_seqlens_k = {};
  call.page();
  const Problem p = checked(call);
  EXPECT_TRUE(p.packed_q() && p.paged());
  EXPECT_EQ(sequence(p, call.tensors(), 1).q_begin, 2);
}

TEST(ProblemTest, UsedLengthsReplaceOwn) {
  Call call(Direction::kForward);
  call.options.seqlens_q = call.indices({0, 5});
  const Problem p = checked(call);
  EXPECT_EQ(sequence(p, call.tensors(), 0).seqlen_q, 0);
  EXPECT_EQ(sequence(p, call.tensors(), 1).seqlen_q, 5);
  EXPECT_EQ(sequence(p, call.tensors(), 1).seqlen_k, kSk);
}

TEST(ProblemTest, EmptyBatchNeedsNoData) {
  Call call(Direction::kForward);
  call.q = view(nullptr, DType::kFp32, {0, kSq, kHq, kD});
  call.k = view(nullptr, DType::kFp32, {0, kSk, kHkv, kD});
  call.v = view(nullptr, DType::kFp32, {0, kSk, kHkv, kDv});
  call.out = view(nullptr, DType::kFp32, {0, kSq, kHq, kDv});
  call.softmax_lse = {};
  EXPECT_EQ(checked(call).batch, 0);
}

TEST(ProblemTest, CausalIsAWindow) {
  Call call(Direction::kForward);
  call.options.causal = true;
  EXPECT_EQ(checked(call).window_right, 0);
  call.options.window_right = 3;
  EXPECT_EQ(checked(call).window_right, 0);
  call.options.causal = false;
  EXPECT_EQ(checked(call).window_right, 3);
}

TEST(ProblemTest, AWindowThatHidesNothingIsNone) {
  Call call(Direction::kForward);
  const Problem none = checked(call);
  call.options.window_left = kSk - 1;
  call.options.window_right = kSq - 1;
  EXPECT_EQ(checked(call), none);
  call.options.window_left = call.options.window_right = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(checked(call), none);
  call.options.window_left = kSk - 2;
  EXPECT_EQ(checked(call).window_left, kSk - 2);
}

TEST(ProblemTest, SeedMattersWithDropoutAlone) {
  Call call(Direction::kForward);
  const Problem without = checked(call);
  call.options.seed = 7;
  EXPECT_EQ(checked(call), without);
  call.options.dropout = 0.5;
  EXPECT_EQ(checked(call).seed, 7u);
}

TEST(ProblemTest, EqualProblemsHashAlike) {
  Call call(Direction::kForward), other(Direction::kForward);
  other.q.shape[4 - 1] = call.q.shape[4 - 1];
  call.softmax_lse.strides[3] = 99;  // behind the rank: nobody's
  EXPECT_EQ(checked(call), checked(other));
  EXPECT_EQ(hash_value(checked(call)), hash_value(checked(other)));
  other.options.softcap = 3;
  EXPECT_NE(checked(call), checked(other));
  EXPECT_NE(hash_value(checked(call)), hash_value(checked(other)));
}

TEST(ProblemTest, ViewsOfOneArrayMayInterleave) {
  // dq, dk and dv as slices of (B, S, 3, H, D).
  Call call(Direction::kBackward);
  constexpr std::int64_t kS = 5, kH = 2, kWidth = 8;
  auto slice = [&](float* array, std::int64_t which) {
    return view(array + which * kH * kWidth, DType::kFp32, {kB, kS, kH, kWidth},
                {kS * 3 * kH * kWidth, 3 * kH * kWidth, kWidth, 1});
  };
  auto* qkv = static_cast<float*>(call.make(DType::kFp32, {kB, kS, 3 * kH, kWidth}).data);
  auto* gradient = static_cast<float*>(call.make(DType::kFp32, {kB, kS, 3 * kH, kWidth}).data);
  call.q = slice(qkv, 0), call.k = slice(qkv, 1), call.v = slice(qkv, 2);
  call.dq = slice(gradient, 0), call.dk = slice(gradient, 1), call.dv = slice(gradient, 2);
  call.out = call.make(DType::kFp32, {kB, kS, kH, kWidth});
  call.dout = call.make(DType::kFp32, {kB, kS, kH, kWidth});
  call.softmax_lse = call.make(DType::kFp32, {kB, kH, kS});
  checked(call);
}

TEST(ProblemTest, BroadcastInputsMayHaveZeroStrides) {
  Call call(Direction::kForward);
  call.k.strides[0] = 0;
  call.v.strides[1] = 0;
  checked(call);
}

TEST(ProblemTest, PrintsWhatWasAsked) {
  Call call(Direction::kForward);
  call.options.causal = true;
  call.options.softcap = 2.5;
  const std::string text = to_string(checked(call));
  for (const char* fact : {"forward, fp32, on cpu", "4 of q, 2 of k and v", "8 of q and k, 6 of v", "causal", "2.5",
                           "fp32 (2, 5, 4, 8) strides (160, 32, 8, 1)"}) {
    EXPECT_NE(text.find(fact), std::string::npos) << fact << " in\n" << text;
  }
  EXPECT_EQ(text.find("dropout"), std::string::npos);
}

}  // namespace
}  // namespace splitq::testing
