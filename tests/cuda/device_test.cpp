// Driver, devices, kernels loaded and launched, against a driver that does as it is told.
#include "cuda/device.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "cuda/pack.hpp"
#include "cuda/workspace.hpp"
#include "fake_driver.hpp"
#include "support.hpp"

namespace splitq::cuda {
namespace {

/// A kernel cache that holds a pack of one kernel, so that no compiler is needed.
KernelSpec packed_spec(std::size_t shared_bytes = 1024) {
  KernelSpec spec = test_spec(2);
  spec.shared_bytes = shared_bytes;
  return spec;
}

class FakeDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    void* library = dlopen(SPLITQ_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    fake_ = reinterpret_cast<FakeDriver* (*)()>(dlsym(library, "splitq_fake_driver"))();
    *fake_ = {};
    const Status loaded = load_driver(SPLITQ_FAKE_DRIVER, &driver_);
    ASSERT_TRUE(loaded.ok()) << loaded.message;

    CacheSettings settings = test_settings({});
    std::string key;
    ASSERT_TRUE(KernelCache(settings).key_of(packed_spec(), &key).ok());
    CompiledKernel kernel{.lowered_name = "entry", .image = "image"};
    kernel.usage.static_shared_bytes = 256;
    write_file(folder_ / "pack", make_pack({{key, kernel}}));
    settings.pack = folder_ / "pack";
    cache_ = std::make_unique<KernelCache>(settings, no_nvrtc);
  }

  std::unique_ptr<CudaDevice> open(int index = 0) {
    std::unique_ptr<CudaDevice> device;
    const Status opened = CudaDevice::open(driver_, index, *cache_, &device);
    EXPECT_TRUE(opened.ok()) << opened.message;
    return device;
  }

  FakeDriver* fake_ = nullptr;
  Driver driver_;
  Folder folder_;
  std::unique_ptr<KernelCache> cache_;
};

TEST(LoadDriver, MissingSaysWhatToInstall) {
  Driver driver;
  const Status status = load_driver("libsplitq_no_such_driver.so", &driver);
  EXPECT_EQ(status.code, StatusCode::kUnsupported);
  EXPECT_NE(status.message.find("libsplitq_no_such_driver.so"), std::string::npos) << status.message;
  EXPECT_NE(status.message.find("install NVIDIA's driver"), std::string::npos) << status.message;
}

TEST(LoadDriver, AnotherLibraryIsRefused) {
  Driver driver;
  const Status status = load_driver("libm.so.6", &driver);
  EXPECT_EQ(status.code, StatusCode::kUnsupported);
  EXPECT_NE(status.message.find("lacks the function cuInit"), std::string::npos) << status.message;
}

TEST_F(FakeDevice, TooOldADriver) {
  fake_->version = 10020;
  Driver driver;
  const Status status = load_driver(SPLITQ_FAKE_DRIVER, &driver);
  EXPECT_EQ(status.code, StatusCode::kUnsupported);
  EXPECT_EQ(status.message, "CUDA driver: version 10.2; at least 11.4 is needed");
}

TEST_F(FakeDevice, DriverThatDoesNotStart) {
  fake_->init = 100;
  Driver driver;
  const Status status = load_driver(SPLITQ_FAKE_DRIVER, &driver);
  EXPECT_EQ(status.code, StatusCode::kUnsupported);
  EXPECT_NE(status.message.find("no CUDA-capable device"), std::string::npos) << status.message;
}

TEST_F(FakeDevice, IndexThatDoesNotExist) {
  std::unique_ptr<CudaDevice> device;
  for (const int index : {-1, 2, 1000}) {
    const Status status = CudaDevice::open(driver_, index, *cache_, &device);
    EXPECT_EQ(status.code, StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message, "device: cuda:" + std::to_string(index) + "; it may be cuda:0 to cuda:1");
  }
  fake_->devices = 0;
  EXPECT_EQ(CudaDevice::open(driver_, 0, *cache_, &device).message, "device: cuda:0; there is no CUDA device");
}

TEST_F(FakeDevice, Properties) {
  const auto device = open(1);
  EXPECT_EQ(device->properties().name, "Fake 1");
  EXPECT_EQ(device->properties().compute_capability, 80);
  EXPECT_EQ(device->properties().multiprocessors, 7);
  EXPECT_EQ(device->properties().shared_bytes_per_block, std::size_t{163} << 10);
  EXPECT_EQ(device->properties().memory_bytes, std::size_t{1} << 34);
}

TEST_F(FakeDevice, LoadsOnceAndLaunchesInTheDevicesContext) {
  const auto device = open(1);
  const LoadedKernel *first = nullptr, *second = nullptr;
  ASSERT_TRUE(device->load(packed_spec(), &first).ok());
  ASSERT_TRUE(device->load(packed_spec(), &second).ok());
  EXPECT_EQ(first, second);
  EXPECT_EQ(fake_->modules, 1);
  EXPECT_EQ(fake_->dynamic_shared_bytes, 0);

  const int params = 5;
  const auto stream = reinterpret_cast<Stream>(std::uintptr_t{17});
  ASSERT_TRUE(device->launch(*first, {3, 2, 1}, params, stream).ok());
  ASSERT_EQ(fake_->launches.size(), 1u);
  const FakeDriver::Launch& launch = fake_->launches[0];
  EXPECT_EQ(launch.grid[0], 3u);
  EXPECT_EQ(launch.grid[1], 2u);
  EXPECT_EQ(launch.block, 256u);
  EXPECT_EQ(launch.shared_bytes, 1024u);
  EXPECT_EQ(launch.stream, stream);
  EXPECT_EQ(launch.params, &params);
  EXPECT_EQ(launch.context, reinterpret_cast<Context>(std::uintptr_t{2}));
  EXPECT_EQ(fake_->pushes, fake_->pops);
  EXPECT_EQ(fake_->current, nullptr);
}

TEST_F(FakeDevice, AContextThatIsCurrentIsLeftAlone) {
  const auto device = open(0);
  const LoadedKernel* kernel = nullptr;
  ASSERT_TRUE(device->load(packed_spec(), &kernel).ok());
  fake_->current = reinterpret_cast<Context>(std::uintptr_t{1});
  const int pushes = fake_->pushes;
  ASSERT_TRUE(device->launch(*kernel, {}, 0, nullptr).ok());
  EXPECT_EQ(fake_->pushes, pushes);
  EXPECT_EQ(fake_->current, reinterpret_cast<Context>(std::uintptr_t{1}));
}

TEST_F(FakeDevice, SharedMemoryBeyondTheDefaultIsAskedFor) {
  const auto device = open();
  const LoadedKernel* kernel = nullptr;
  ASSERT_TRUE(device->load(packed_spec(100 << 10), &kernel).ok());
  EXPECT_EQ(fake_->dynamic_shared_bytes, 100 << 10);
}

TEST_F(FakeDevice, MoreSharedMemoryThanTheDeviceHas) {
  const auto device = open();
  const LoadedKernel* kernel = nullptr;
  const Status status = device->load(packed_spec(163 << 10), &kernel);  // and 256 static bytes
  EXPECT_EQ(status.code, StatusCode::kUnsupported);
  EXPECT_NE(status.message.find("takes 167168 bytes"), std::string::npos) << status.message;
  EXPECT_NE(status.message.find("has 166912"), std::string::npos) << status.message;
  EXPECT_TRUE(device->load(packed_spec(), &kernel).ok());  // still usable
}

TEST_F(FakeDevice, KernelsThatTheDriverCannotLoad) {
  const auto device = open();
  const LoadedKernel* kernel = nullptr;
  fake_->module_load = 222;
  EXPECT_EQ(device->load(packed_spec(), &kernel).code, StatusCode::kUnsupported);
  fake_->module_load = 2;
  EXPECT_EQ(device->load(packed_spec(), &kernel).code, StatusCode::kOutOfMemory);
  fake_->module_load = 0;
  EXPECT_TRUE(device->load(packed_spec(), &kernel).ok());
}

TEST_F(FakeDevice, FailedLaunch) {
  const auto device = open();
  const LoadedKernel* kernel = nullptr;
  ASSERT_TRUE(device->load(packed_spec(), &kernel).ok());
  fake_->launch = 719;
  const Status status = device->launch(*kernel, {}, 0, nullptr);
  EXPECT_EQ(status.code, StatusCode::kInternal);
  EXPECT_EQ(status.message, "CUDA: cuLaunchKernel: some error (error 719)");
}

TEST_F(FakeDevice, WorkspaceComesAndGoes) {
  for (const bool pools : {true, false}) {
    fake_->memory_pools = pools;
    const auto device = open();
    {
      Workspace workspace, other;
      ASSERT_TRUE(Workspace::allocate(*device, 100, nullptr, &workspace).ok());
      EXPECT_NE(workspace.address(), 0u);
      ASSERT_TRUE(Workspace::allocate(*device, 0, nullptr, &other).ok());
      EXPECT_EQ(other.address(), 0u);
      EXPECT_EQ(fake_->live_allocations, 1);
      ASSERT_TRUE(Workspace::allocate(*device, 200, nullptr, &workspace).ok());  // the first one goes
      EXPECT_EQ(fake_->live_allocations, 1);
    }
    EXPECT_EQ(fake_->live_allocations, 0);
    EXPECT_EQ(fake_->pushes, fake_->pops);
  }
}

TEST_F(FakeDevice, OutOfMemory) {
  const auto device = open(1);
  fake_->alloc = 2;
  Workspace workspace;
  const Status status = Workspace::allocate(*device, 12345, nullptr, &workspace);
  EXPECT_EQ(status.code, StatusCode::kOutOfMemory);
  EXPECT_EQ(status.message, "workspace of 12345 bytes on cuda:1: CUDA: cuMemAllocAsync: out of memory (error 2)");
  EXPECT_EQ(fake_->live_allocations, 0);
  fake_->alloc = 0;
  EXPECT_TRUE(Workspace::allocate(*device, 12345, nullptr, &workspace).ok());
}

TEST_F(FakeDevice, PointersOfOthers) {
  const auto device = open(1);
  const auto at = [](std::uintptr_t megabyte) { return reinterpret_cast<const void*>(megabyte << 20); };
  EXPECT_TRUE(device->check_pointer(at(2), "q").ok());
  EXPECT_EQ(device->check_pointer(at(1), "q").message, "q: its memory is on cuda:0; it may be memory of cuda:1");
  EXPECT_EQ(device->check_pointer(at(0), "q").message,
            "q: its memory is not a CUDA device's; it may be memory of cuda:1");
}

}  // namespace
}  // namespace splitq::cuda
