// The values of index tensors.
#include <gtest/gtest.h>

#include "problem/call.hpp"

namespace splitq::testing {
namespace {

std::string message(const Call& call) {
  Problem problem;
  const Status status = call.check(&problem);
  EXPECT_TRUE(status.ok()) << status.message;
  return check_indices(problem, call.tensors()).message;
}

Call packed() {
  Call call(Direction::kForward);
  call.pack();
  return call;
}

Call paged() {
  Call call(Direction::kForward);
  call.page();
  return call;
}

TEST(IndicesTest, CuSeqlens) {
  Call call = packed();
  EXPECT_EQ(message(call), "");
  call.options.cu_seqlens_q = call.indices({1, 2, 5});
  EXPECT_EQ(message(call), "cu_seqlens_q[0]: 1; must be 0");
  call.options.cu_seqlens_q = call.indices({0, 2, 6});
  EXPECT_EQ(message(call), "cu_seqlens_q[2]: 6; must be at most 5, the rows of q");
  call.options.cu_seqlens_q = call.indices({0, 2, 2});  // rows behind the last sequence
  EXPECT_EQ(message(call), "");
  call.options.cu_seqlens_k = call.indices({0, 4, 3});
  EXPECT_EQ(message(call), "cu_seqlens_k[2]: 3; must be at least 4, which is cu_seqlens_k[1]");
  call.options.cu_seqlens_k = call.indices({0, -1, 3});
  EXPECT_EQ(message(call), "cu_seqlens_k[1]: -1; must be at least 0, which is cu_seqlens_k[0]");
}

TEST(IndicesTest, Int64AndStrides) {
  Call call = packed();
  const TensorView wide = call.make(DType::kInt64, {5});
  auto* data = static_cast<std::int64_t*>(wide.data);
  data[4] = 0, data[2] = 2, data[0] = std::int64_t{1} << 40;
  call.options.cu_seqlens_q = view(data + 4, DType::kInt64, {3}, {-2});
  EXPECT_EQ(message(call), "cu_seqlens_q[2]: 1099511627776; must be at most 5, the rows of q");
  data[0] = 5;
  EXPECT_EQ(message(call), "");
}

TEST(IndicesTest, UsedLengths) {
  Call call = packed();
  call.options.seqlens_q = call.indices({2, 4});
  EXPECT_EQ(message(call), "seqlens_q[1]: 4; must be from 0 to 3, the length of the sequence");
  call.options.seqlens_q = call.indices({-1, 0});
  EXPECT_EQ(message(call), "seqlens_q[0]: -1; must be from 0 to 2, the length of the sequence");
  Call plain(Direction::kForward);
  plain.options.seqlens_k = plain.indices({0, 8});
  EXPECT_EQ(message(plain), "seqlens_k[1]: 8; must be from 0 to 7, the length of the sequence");
}

TEST(IndicesTest, Pages) {
  Call call = paged();
  EXPECT_EQ(message(call), "");  // entry (1, 1) is -1, but length 4 does not reach it
  call.options.seqlens_k = call.indices({7, 5});
  EXPECT_EQ(message(call), "block_table[1, 1]: -1; must be from 0 to 4, as k has 5 pages");
  call.options.seqlens_k = call.indices({9, 4});
  EXPECT_EQ(message(call), "seqlens_k[0]: 9; must be from 0 to 8, what block_table reaches");
  call.options.seqlens_k = call.indices({7, 4});
  static_cast<std::int32_t*>(call.options.block_table.data)[1] = 5;
  EXPECT_EQ(message(call), "block_table[0, 1]: 5; must be from 0 to 4, as k has 5 pages");
}

TEST(IndicesTest, BiasCoversTheLongestSequence) {
  Call call = packed();
  call.options.bias = call.make(DType::kFp32, {1, 1, 3, 4});
  EXPECT_EQ(message(call), "");
  call.options.bias = call.make(DType::kFp32, {1, 1, 2, 4});
  EXPECT_EQ(message(call), "bias: 2 rows; must be 1 or at least 3, the longest sequence of q");
  call.options.bias = {};
  call.options.mask = call.make(DType::kBool, {2, 1, 1, 3});
  EXPECT_EQ(message(call), "mask: 3 columns; must be at least 4, the longest sequence of k");
}

}  // namespace
}  // namespace splitq::testing
