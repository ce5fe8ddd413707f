// What a call asks of the driver.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cuda/architecture.hpp"
#include "cuda/fake_driver.hpp"
#include "cuda/kernel_cache.hpp"
#include "cuda/pack.hpp"
#include "gpu/forward_launch.hpp"
#include "gpu/run_cuda.hpp"
#include "problem/problem.hpp"
#include "shared/forward_params.hpp"

namespace splitq::testing {
namespace {

constexpr std::int64_t kSeqlen = 100, kHeads = 2, kHeadDim = 64;

/// Tensors at addresses that the fake driver takes for memory of device 0 (the first megabyte) or 1 (the second).
ForwardTensors tensors_at(int device, std::uintptr_t shift = 0) {
  const std::uintptr_t base = static_cast<std::uintptr_t>(device + 1) << 20;
  const auto at = [&](std::uintptr_t number) {
    TensorView t = view(reinterpret_cast<const void*>(base + number * 0x10000 + shift), DType::kBf16,
                        {1, kSeqlen, kHeads, kHeadDim});
    t.device = {DeviceKind::kCuda, device};
    return t;
  };
  return {at(0), at(1), at(2), at(3), {}};
}

/// The kernels that these tests ask for, in a pack: no compiler is needed, and none is asked.
void write_pack(const std::string& path) {
  cuda::KernelCache cache({});
  std::vector<cuda::ArchiveEntry> entries;
  for (const std::uintptr_t shift : {0, 2}) {
    const ForwardTensors t = tensors_at(0, shift);
    Problem problem;
    ASSERT_TRUE(make_problem(t, {}, &problem).ok());
    gpu::ForwardLaunch launch;
    ASSERT_TRUE(gpu::make_forward_launch(problem, gather(t, {}), {cuda::FakeDriver{}.shared_bytes, 80}, &launch).ok());
    cuda::ArchiveEntry& entry = entries.emplace_back();
    ASSERT_TRUE(cache.key_of(cuda::kernel_spec(launch, "sm_80"), &entry.key).ok());
    entry.kernel = {.lowered_name = "entry", .image = "image"};
  }
  std::ofstream(path, std::ios::binary) << cuda::make_pack(entries);
}

class FakeCuda : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string pack = ::testing::TempDir() + "splitq_fake_" + std::to_string(::getpid());
    write_pack(pack);
    ::setenv("SPLITQ_PACK", pack.c_str(), 1);
    cuda::kernel_cache();  // reads it
    std::filesystem::remove(pack);
    void* library = ::dlopen(SPLITQ_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << ::dlerror();
    fake_ = reinterpret_cast<cuda::FakeDriver* (*)()>(::dlsym(library, "splitq_fake_driver"))();
  }
  void SetUp() override { *fake_ = {}; }

  static std::string reason(const ForwardTensors& tensors, const Execution& execution = {}) {
    return is_supported(tensors, {}, execution).reason;
  }

  static cuda::FakeDriver* fake_;
};
cuda::FakeDriver* FakeCuda::fake_ = nullptr;

TEST_F(FakeCuda, APlannedRunIsOneLaunchAndNothingElse) {
  int stream = 0;
  const Plan made = plan(tensors_at(0), {}, {.stream = &stream});
  EXPECT_EQ(made.backend(), "cuda:0/sm_80");
  EXPECT_TRUE(fake_->launches.empty());
  const cuda::FakeDriver before = *fake_;
  made.run(tensors_at(0));
  ASSERT_EQ(fake_->launches.size(), 1u);
  EXPECT_EQ(fake_->launches[0].stream, static_cast<void*>(&stream));
  EXPECT_EQ(fake_->launches[0].grid[0], kHeads);  // a tile of 128 queries
  EXPECT_EQ(fake_->allocations, before.allocations);
  EXPECT_EQ(fake_->waits, before.waits);
  EXPECT_EQ(fake_->copies, before.copies);
  EXPECT_EQ(fake_->modules, before.modules);
  EXPECT_EQ(fake_->pushes, fake_->pops);
}

TEST_F(FakeCuda, LessAlignedMemoryThanPlannedGetsAnotherKernel) {
  const Plan made = plan(tensors_at(0));
  made.run(tensors_at(0));
  made.run(tensors_at(0, 2));
  made.run(tensors_at(0, 2));
  made.run(tensors_at(0));
  ASSERT_EQ(fake_->launches.size(), 4u);
  EXPECT_LE(fake_->modules, 2);
  EXPECT_EQ(fake_->launches[0].shared_bytes, fake_->launches[3].shared_bytes);
}

TEST_F(FakeCuda, RunOnceLooksAtThePointers) {
  forward(tensors_at(0).q, tensors_at(0).k, tensors_at(0).v, tensors_at(0).out);
  EXPECT_EQ(fake_->launches.size(), 1u);
  ForwardTensors mixed = tensors_at(0);
  mixed.v = tensors_at(1).v;
  mixed.v.device = {DeviceKind::kCuda, 0};
  try {
    forward(mixed.q, mixed.k, mixed.v, mixed.out);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), StatusCode::kInvalidArgument);
    EXPECT_STREQ(error.what(), "v: its memory is on cuda:1; it may be memory of cuda:0");
  }
  EXPECT_EQ(fake_->launches.size(), 1u);
}

TEST_F(FakeCuda, EmptyProblemsLaunchNothing) {
  ForwardTensors t = tensors_at(0);
  for (TensorView* view : {&t.q, &t.out}) view->shape[1] = 0;
  forward(t.q, t.k, t.v, t.out);
  EXPECT_TRUE(fake_->launches.empty());
}

TEST_F(FakeCuda, DevicesThatDoNotExist) {
  ForwardTensors t = tensors_at(0);
  EXPECT_EQ(reason(t), "");
  for (TensorView* view : {&t.q, &t.k, &t.v, &t.out}) view->device.index = 9;
  EXPECT_EQ(reason(t), "device: cuda:9; it may be cuda:0 to cuda:1");
}

TEST_F(FakeCuda, IndexTensorsAreNotRead) {
  // Their addresses are nobody's: whoever read them would crash.
  ForwardTensors t = tensors_at(0);
  Options options;
  options.seqlens_k = view(reinterpret_cast<const void*>(std::uintptr_t{0x1F0000}), DType::kInt32, {1});
  options.seqlens_k.device = {DeviceKind::kCuda, 0};
  EXPECT_TRUE(is_supported(t, options));
}

TEST_F(FakeCuda, FailuresAreStatuses) {
  const Plan made = plan(tensors_at(0));
  fake_->launch = 719;
  try {
    made.run(tensors_at(0));
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), StatusCode::kInternal);
    EXPECT_STREQ(error.what(), "CUDA: cuLaunchKernel: some error (error 719)");
  }
}

TEST_F(FakeCuda, BackendsNamesTheDevices) {
  std::vector<std::string> names;
  for (const BackendInfo& backend : backends()) {
    if (backend.name.starts_with("cuda")) names.push_back(backend.name + (backend.chosen ? " chosen" : ""));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"cuda:0 chosen", "cuda:1 chosen"}));
}

}  // namespace
}  // namespace splitq::testing
