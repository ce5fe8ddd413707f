// The whole option matrix on a GPU, against the oracle.
#include <gtest/gtest.h>

#include <random>
#include <string_view>

#include "on_device.hpp"
#include "support/option.hpp"
#include "support/seed.hpp"

namespace splitq::testing {
namespace {

AttentionCase on_device(AttentionCase c) {
  c.backward = false;
  c.execution = {};
  c.execution.device = {DeviceKind::kCuda, 0};
  return c;
}

void expect_accurate_there(const AttentionCase& c) { expect_accurate(on_device(c), {}, call_on_device); }

class GpuOptions : public OnDevice, public ::testing::WithParamInterface<Option> {};

TEST_P(GpuOptions, Alone) {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    expect_accurate_there(case_with(dtype, GetParam(), GetParam()));
}

TEST_P(GpuOptions, WithEveryLaterOne) {
  bool later = false;
  for (const Option& second : all_options()) {
    if (later) {
      for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
        expect_accurate_there(case_with(dtype, GetParam(), second));
    }
    later |= std::string_view(second.name) == GetParam().name;
  }
}

INSTANTIATE_TEST_SUITE_P(, GpuOptions, ::testing::ValuesIn(all_options().begin(), all_options().end()),
                         [](const auto& test) { return std::string(test.param.name); });

using GpuShapes = OnDevice;

TEST_F(GpuShapes, EveryHeadSize) {
  for (const std::int64_t head_dim : {1, 8, 32, 40, 64, 80, 96, 111, 128, 160, 192, 224, 256, 320}) {
    for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
      AttentionCase c;
      c.dtype = dtype, c.heads_q = 4, c.seqlen_q = 130, c.seqlen_k = 257, c.head_dim = head_dim, c.causal = true;
      expect_accurate_there(c);
      c.head_dim_v = 64;
      expect_accurate_there(c);
    }
  }
}

TEST_F(GpuShapes, Lengths) {
  for (const std::int64_t seqlen_q : {0, 1, 63, 64, 65, 128, 300}) {
    for (const std::int64_t seqlen_k : {0, 1, 31, 64, 129, 1000}) {
      for (const bool causal : {false, true}) {
        AttentionCase c;
        c.dtype = DType::kBf16, c.heads_q = 4, c.head_dim = 64, c.seqlen_q = seqlen_q, c.seqlen_k = seqlen_k;
        c.causal = causal;
        expect_accurate_there(c);
      }
    }
  }
}

TEST_F(GpuShapes, AtRandom) {
  constexpr int kCases = 40;  // nearly each compiles a kernel
  Rng rng(next_seed());
  for (int i = 0; i < kCases; ++i) expect_accurate_there(random_case(rng));
}

class GpuPlan : public OnDevice {
 protected:
  GpuPlan() {
    c_.dtype = DType::kBf16, c_.heads_q = 4, c_.seqlen_q = 200, c_.seqlen_k = 300, c_.head_dim = 64;
    c_ = on_device(c_);
  }
  AttentionCase c_;
};

TEST_F(GpuPlan, AGraphCapturesARun) {
  CallTensors call(c_, make_inputs(c_, 1));
  const DeviceCall there(call);
  const cuda::CudaDevice::Scope scope(there.copies.device());
  const cuda::Driver& driver = there.copies.device().driver();
  cuda::Stream stream = nullptr;
  ASSERT_EQ(driver.stream_create(&stream, 1), 0);    // 1: does not wait for the default stream
  ASSERT_EQ(driver.stream_synchronize(nullptr), 0);  // the copies are there

  c_.execution.stream = stream;
  const Plan made = plan(there.tensors, there.options, c_.execution);
  EXPECT_TRUE(made.backend().starts_with("cuda:0/")) << made.backend();
  ASSERT_EQ(driver.stream_begin_capture(stream, 0), 0);  // 0: nothing that could wait is allowed anywhere
  made.run(there.tensors, there.options);
  cuda::Graph graph = nullptr;
  cuda::GraphExec exec = nullptr;
  ASSERT_EQ(driver.stream_end_capture(stream, &graph), 0);
  ASSERT_EQ(driver.graph_instantiate(&exec, graph, 0), 0);
  ASSERT_EQ(driver.graph_launch(exec, stream), 0);
  ASSERT_EQ(driver.stream_synchronize(stream), 0);
  expect_ok(there.copies.download());
  EXPECT_TRUE(accurate(c_, make_inputs(c_, 1), results_of(call)));
  driver.graph_exec_destroy(exec);
  driver.graph_destroy(graph);
  driver.stream_destroy(stream);
}

TEST_F(GpuPlan, LessAlignedMemoryThanPlanned) {
  CallTensors call(c_, make_inputs(c_, 1)), shifted(c_, make_inputs(c_, 2));
  const DeviceCall there(call);
  DeviceCall elsewhere(shifted);
  const Plan made = plan(there.tensors, there.options, c_.execution);
  // The same rows, 2 bytes further.
  const TensorView k = elsewhere.tensors.k;
  const auto bytes = static_cast<std::size_t>(k.size()) * size_of(k.dtype);
  cuda::Workspace memory;
  expect_ok(cuda::Workspace::allocate(elsewhere.copies.device(), bytes + 2, nullptr, &memory));
  std::vector<std::byte> rows = shifted.k.bytes();
  const cuda::CudaDevice::Scope scope(elsewhere.copies.device());
  ASSERT_EQ(scope.status().code, StatusCode::kOk);
  ASSERT_EQ(elsewhere.copies.device().driver().memcpy_htod_async(memory.address() + 2, rows.data(), bytes, nullptr), 0);
  elsewhere.tensors.k.data = reinterpret_cast<void*>(memory.address() + 2);
  made.run(elsewhere.tensors, elsewhere.options);
  expect_ok(elsewhere.copies.download());
  EXPECT_TRUE(accurate(c_, make_inputs(c_, 2), results_of(shifted)));
}

TEST_F(GpuPlan, MemoryOfTheHostIsRefused) {
  CallTensors call(c_, make_inputs(c_, 1));
  DeviceCall there(call);
  there.tensors.k.data = call.k.view().data;
  try {
    there.run(c_.execution);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), StatusCode::kInvalidArgument);
    EXPECT_STREQ(error.what(), "k: its memory is not a CUDA device's; it may be memory of cuda:0");
  }
}

}  // namespace
}  // namespace splitq::testing
