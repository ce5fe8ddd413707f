#include "fake_driver.hpp"

#include <cstdio>
#include <cstdlib>

using namespace splitq::cuda;

namespace {

FakeDriver& fake() { return *splitq_fake_driver(); }

Context context_of(DeviceId device) { return reinterpret_cast<Context>(static_cast<std::uintptr_t>(device) + 1); }

Result allocate(DevicePointer* pointer, std::size_t bytes) {
  if (fake().alloc != 0) return fake().alloc;
  *pointer = reinterpret_cast<DevicePointer>(std::malloc(bytes));
  ++fake().live_allocations, ++fake().allocations;
  return 0;
}

Result release(DevicePointer pointer) {
  std::free(reinterpret_cast<void*>(pointer));
  --fake().live_allocations;
  return 0;
}

}  // namespace

extern "C" {

FakeDriver* splitq_fake_driver() {
  static FakeDriver state;
  return &state;
}

Result cuInit(unsigned) { return fake().init; }

Result cuDriverGetVersion(int* version) {
  *version = fake().version;
  return 0;
}

Result cuGetErrorString(Result result, const char** text) {
  *text = result == 2 ? "out of memory" : result == 100 ? "no CUDA-capable device is detected" : "some error";
  return 0;
}

Result cuDeviceGetCount(int* count) {
  *count = fake().devices;
  return 0;
}

Result cuDeviceGet(DeviceId* device, int index) {
  *device = index;
  return 0;
}

Result cuDeviceGetName(char* name, int size, DeviceId device) {
  std::snprintf(name, static_cast<std::size_t>(size), "Fake %d", device);
  return 0;
}

Result cuDeviceGetAttribute(int* value, DeviceAttribute attribute, DeviceId) {
  switch (attribute) {
    case DeviceAttribute::kMultiprocessorCount:
      *value = 7;
      break;
    case DeviceAttribute::kComputeCapabilityMajor:
      *value = fake().compute_capability / 10;
      break;
    case DeviceAttribute::kComputeCapabilityMinor:
      *value = fake().compute_capability % 10;
      break;
    case DeviceAttribute::kMaxSharedMemoryPerBlockOptin:
      *value = fake().shared_bytes;
      break;
    case DeviceAttribute::kMemoryPoolsSupported:
      *value = fake().memory_pools;
      break;
  }
  return 0;
}

Result cuDeviceTotalMem_v2(std::size_t* bytes, DeviceId) {
  *bytes = std::size_t{1} << 34;
  return 0;
}

Result cuDevicePrimaryCtxRetain(Context* context, DeviceId device) {
  *context = context_of(device);
  return 0;
}

Result cuCtxGetCurrent(Context* context) {
  *context = fake().current;
  return 0;
}

Result cuCtxPushCurrent_v2(Context context) {
  fake().current = context;
  ++fake().pushes;
  return 0;
}

Result cuCtxPopCurrent_v2(Context* context) {
  *context = fake().current;
  fake().current = nullptr;
  ++fake().pops;
  return 0;
}

Result cuModuleLoadData(Module*, const void*) {
  if (fake().module_load == 0) ++fake().modules;
  return fake().module_load;
}

Result cuModuleGetFunction(Function* function, Module, const char*) {
  *function = reinterpret_cast<Function>(std::uintptr_t{42});
  return 0;
}

Result cuFuncSetAttribute(Function, FunctionAttribute, int value) {
  fake().dynamic_shared_bytes = value;
  return 0;
}

Result cuStreamSynchronize(Stream) {
  ++fake().waits;
  return 0;
}

Result cuEventSynchronize(Event) {
  ++fake().waits;
  return 0;
}

Result cuMemcpyHtoDAsync_v2(DevicePointer, const void*, std::size_t, Stream) {
  ++fake().copies;
  return 0;
}

Result cuMemcpyDtoHAsync_v2(void*, DevicePointer, std::size_t, Stream) {
  ++fake().copies;
  return 0;
}

Result cuLaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned,
                      unsigned, unsigned shared_bytes, Stream stream, void** parameters, void**) {
  fake().launches.push_back(
      {function, {grid_x, grid_y, grid_z}, block_x, shared_bytes, stream, fake().current, parameters[0]});
  return fake().launch;
}

Result cuMemAllocAsync(DevicePointer* pointer, std::size_t bytes, Stream) { return allocate(pointer, bytes); }
Result cuMemAlloc_v2(DevicePointer* pointer, std::size_t bytes) { return allocate(pointer, bytes); }
Result cuMemFreeAsync(DevicePointer pointer, Stream) { return release(pointer); }
Result cuMemFree_v2(DevicePointer pointer) { return release(pointer); }

/// Addresses below 1 MiB are nobody's; above, the megabyte is the device's index plus one.
Result cuPointerGetAttribute(void* value, PointerAttribute, DevicePointer pointer) {
  if (pointer >> 20 == 0) return 1;
  *static_cast<int*>(value) = static_cast<int>(pointer >> 20) - 1;
  return 0;
}

}  // extern "C"
