// The run-time on a real GPU.
#include <gtest/gtest.h>

#include <vector>

#include "cuda/architecture.hpp"
#include "cuda/device.hpp"
#include "cuda/workspace.hpp"
#include "support.hpp"

namespace splitq::cuda {
namespace {

constexpr int kSize = 1000;

struct ScaleParams {  // as test/scale.hpp has it
  DevicePointer in, out;
  int size;
};

class GpuRuntime : public ::testing::Test {
 protected:
  void SetUp() override {
    SPLITQ_NEEDS_NVRTC();
    if (const Status found = cuda::driver(&driver_); !found.ok()) GTEST_SKIP() << found.message;
    int count = 0;
    ASSERT_TRUE(device_count(*driver_, &count).ok());
    if (count == 0) GTEST_SKIP() << "there is no CUDA device";
    cache_ = std::make_unique<KernelCache>(test_settings(folder_.path()));
    expect_ok(CudaDevice::open(*driver_, 0, *cache_, &device_));
    scope_ = std::make_unique<CudaDevice::Scope>(*device_);
    expect_ok(check(*driver_, driver_->stream_create(&stream_, 1),
                    "cuStreamCreate"));  // 1: does not wait for the default stream
  }

  void TearDown() override {
    if (stream_) driver_->stream_destroy(stream_);
  }

  static void expect_ok(const Status& status) { ASSERT_TRUE(status.ok()) << status.message; }

  std::string native() const {
    const Nvrtc* with = nullptr;
    return nvrtc(&with).ok()
               ? architecture_for(device_->properties().compute_capability, with->supported_architectures())
               : "";
  }

  /// Two arrays on the device: the numbers 0, 1, 2, ..., and zeros.
  void fill(Workspace* in, Workspace* out) {
    expect_ok(Workspace::allocate(*device_, kSize * sizeof(float), stream_, in));
    expect_ok(Workspace::allocate(*device_, kSize * sizeof(float), stream_, out));
    std::vector<float> numbers(kSize);
    for (int i = 0; i < kSize; ++i) numbers[i] = static_cast<float>(i);
    ASSERT_EQ(driver_->memcpy_htod_async(in->address(), numbers.data(), kSize * sizeof(float), stream_), 0);
    ASSERT_EQ(driver_->memset_d8_async(out->address(), 0, kSize * sizeof(float), stream_), 0);
    ASSERT_EQ(driver_->stream_synchronize(stream_), 0);
  }

  void expect_scaled(const Workspace& out, float factor) {
    std::vector<float> got(kSize);
    ASSERT_EQ(driver_->memcpy_dtoh_async(got.data(), out.address(), kSize * sizeof(float), stream_), 0);
    expect_ok(check(*driver_, driver_->stream_synchronize(stream_), "cuStreamSynchronize"));
    for (int i = 0; i < kSize; ++i) ASSERT_EQ(got[i], factor * static_cast<float>(i)) << i;
  }

  Folder folder_;
  const Driver* driver_ = nullptr;
  std::unique_ptr<KernelCache> cache_;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaDevice::Scope> scope_;
  Stream stream_ = nullptr;
};

TEST_F(GpuRuntime, MachineCodeAndPtxRun) {
  for (const std::string& architecture : {native(), std::string("compute_75")}) {
    Workspace in, out;
    fill(&in, &out);
    const LoadedKernel* kernel = nullptr;
    expect_ok(device_->load(test_spec(3, architecture), &kernel));
    ASSERT_NE(kernel, nullptr) << architecture;
    const ScaleParams params{in.address(), out.address(), kSize};
    expect_ok(device_->launch(*kernel, {(kSize + 255) / 256}, params, stream_));
    expect_scaled(out, 3);
  }
}

TEST_F(GpuRuntime, AGraphCapturesTheLaunch) {
  Workspace in, out;
  fill(&in, &out);
  const LoadedKernel* kernel = nullptr;
  expect_ok(device_->load(test_spec(5, native()), &kernel));
  ASSERT_NE(kernel, nullptr);
  const ScaleParams params{in.address(), out.address(), kSize};
  ASSERT_EQ(driver_->stream_begin_capture(stream_, 0), 0);  // 0: nothing that could wait is allowed anywhere
  Workspace unused;
  expect_ok(Workspace::allocate(*device_, 4096, stream_, &unused));
  expect_ok(device_->launch(*kernel, {(kSize + 255) / 256}, params, stream_));
  unused = Workspace();
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  ASSERT_EQ(driver_->stream_end_capture(stream_, &graph), 0);
  ASSERT_EQ(driver_->graph_instantiate(&exec, graph, 0), 0);
  ASSERT_EQ(driver_->graph_launch(exec, stream_), 0);
  expect_scaled(out, 5);
  driver_->graph_exec_destroy(exec);
  driver_->graph_destroy(graph);
}

TEST_F(GpuRuntime, OutOfMemoryLeavesTheDeviceUsable) {
  Workspace workspace;
  const Status status = Workspace::allocate(*device_, std::size_t{1} << 46, stream_, &workspace);
  EXPECT_EQ(status.code, StatusCode::kOutOfMemory) << status.message;
  expect_ok(Workspace::allocate(*device_, 1 << 20, stream_, &workspace));
}

TEST_F(GpuRuntime, PointersOfTheHostAreRefused) {
  Workspace workspace;
  expect_ok(Workspace::allocate(*device_, 1 << 20, stream_, &workspace));
  const int host = 0;
  expect_ok(device_->check_pointer(reinterpret_cast<const void*>(workspace.address()), "q"));
  EXPECT_EQ(device_->check_pointer(&host, "q").code, StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace splitq::cuda
