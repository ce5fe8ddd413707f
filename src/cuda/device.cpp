#include "cuda/device.hpp"

#include <fmt/format.h>

#include <array>
#include <map>

namespace splitq::cuda {
namespace {

constexpr std::size_t kStaticLimit = 48 << 10;  // more dynamic shared memory than this is to be asked for

Status attribute(const Driver& driver, DeviceId id, DeviceAttribute which, int* value) {
  return check(driver, driver.device_get_attribute(value, which, id), "cuDeviceGetAttribute");
}

}  // namespace

Status device_count(const Driver& driver, int* count) {
  return check(driver, driver.device_get_count(count), "cuDeviceGetCount");
}

Status read_properties(const Driver& driver, int index, DeviceProperties* out) {
  DeviceId id = 0;
  SPLITQ_TRY(check(driver, driver.device_get(&id, index), "cuDeviceGet"));
  std::array<char, 256> name{};
  SPLITQ_TRY(check(driver, driver.device_get_name(name.data(), static_cast<int>(name.size()), id), "cuDeviceGetName"));
  out->name = name.data();
  int major = 0, minor = 0, shared = 0, pools = 0;
  SPLITQ_TRY(attribute(driver, id, DeviceAttribute::kComputeCapabilityMajor, &major));
  SPLITQ_TRY(attribute(driver, id, DeviceAttribute::kComputeCapabilityMinor, &minor));
  SPLITQ_TRY(attribute(driver, id, DeviceAttribute::kMultiprocessorCount, &out->multiprocessors));
  SPLITQ_TRY(attribute(driver, id, DeviceAttribute::kMaxSharedMemoryPerBlockOptin, &shared));
  SPLITQ_TRY(attribute(driver, id, DeviceAttribute::kMemoryPoolsSupported, &pools));
  SPLITQ_TRY(check(driver, driver.device_total_mem(&out->memory_bytes, id), "cuDeviceTotalMem"));
  out->compute_capability = 10 * major + minor;
  out->shared_bytes_per_block = static_cast<std::size_t>(shared);
  out->memory_pools = pools != 0;
  return {};
}

Status CudaDevice::open(const Driver& driver, int index, KernelCache& cache, std::unique_ptr<CudaDevice>* device) {
  int count = 0;
  SPLITQ_TRY(device_count(driver, &count));
  if (index < 0 || index >= count) {
    return Status::invalid(count == 0 ? fmt::format("device: cuda:{}; there is no CUDA device", index)
                                      : fmt::format("device: cuda:{}; it may be cuda:0 to cuda:{}", index, count - 1));
  }
  std::unique_ptr<CudaDevice> out(new CudaDevice(driver, index, cache));
  DeviceId id = 0;
  SPLITQ_TRY(check(driver, driver.device_get(&id, index), "cuDeviceGet"));
  SPLITQ_TRY(read_properties(driver, index, &out->properties_));
  SPLITQ_TRY(check(driver, driver.device_primary_ctx_retain(&out->context_, id), "cuDevicePrimaryCtxRetain"));
  *device = std::move(out);
  return {};
}

CudaDevice::Scope::Scope(const CudaDevice& device) : driver_(device.driver_) {
  Context current = nullptr;
  if (driver_.ctx_get_current(&current) == 0 && current == device.context_) return;
  status_ = check(driver_, driver_.ctx_push_current(device.context_), "cuCtxPushCurrent");
  pushed_ = status_.ok();
}

CudaDevice::Scope::~Scope() {
  Context popped = nullptr;
  if (pushed_) driver_.ctx_pop_current(&popped);
}

Status CudaDevice::load(const KernelSpec& spec, const LoadedKernel** kernel) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<LoadedKernel>& found = kernels_[spec];
  if (!found) {
    auto loaded = std::make_unique<LoadedKernel>();
    SPLITQ_TRY(load_module(spec, loaded.get()));
    found = std::move(loaded);
  }
  *kernel = found.get();
  return {};
}

Status CudaDevice::load_module(const KernelSpec& spec, LoadedKernel* kernel) const {
  SPLITQ_TRY(cache_.get(spec, &kernel->compiled));
  const std::size_t shared = spec.shared_bytes + static_cast<std::size_t>(kernel->compiled->usage.static_shared_bytes);
  if (shared > properties_.shared_bytes_per_block) {
    return Status::unsupported(fmt::format("{}: it takes {} bytes of shared memory; cuda:{} ({}) has {}",
                                           to_string(spec), shared, index_, properties_.name,
                                           properties_.shared_bytes_per_block));
  }
  kernel->threads = static_cast<unsigned>(spec.threads);
  kernel->shared_bytes = static_cast<unsigned>(spec.shared_bytes);
  const Scope scope(*this);
  SPLITQ_TRY(scope.status());
  const CompiledKernel& compiled = *kernel->compiled;
  Module module = nullptr;
  SPLITQ_TRY(check(driver_, driver_.module_load_data(&module, compiled.image.c_str()), "cuModuleLoadData"));
  SPLITQ_TRY(check(driver_, driver_.module_get_function(&kernel->function, module, compiled.lowered_name.c_str()),
                   "cuModuleGetFunction"));
  if (spec.shared_bytes <= kStaticLimit) return {};
  return check(driver_,
               driver_.func_set_attribute(kernel->function, FunctionAttribute::kMaxDynamicSharedSizeBytes,
                                          static_cast<int>(spec.shared_bytes)),
               "cuFuncSetAttribute");
}

Status CudaDevice::launch_raw(const LoadedKernel& kernel, Grid grid, const void* params, Stream stream) const {
  const Scope scope(*this);
  SPLITQ_TRY(scope.status());
  void* parameters[] = {const_cast<void*>(params)};
  return check(driver_,
               driver_.launch_kernel(kernel.function, grid.x, grid.y, grid.z, kernel.threads, 1, 1, kernel.shared_bytes,
                                     stream, parameters, nullptr),
               "cuLaunchKernel");
}

Status CudaDevice::check_pointer(const void* pointer, const char* name) const {
  const auto address = reinterpret_cast<DevicePointer>(pointer);
  int ordinal = -1;
  if (driver_.pointer_get_attribute(&ordinal, PointerAttribute::kDeviceOrdinal, address) != 0) {
    return Status::invalid(
        fmt::format("{}: its memory is not a CUDA device's; it may be memory of cuda:{}", name, index_));
  }
  if (ordinal != index_) {
    return Status::invalid(
        fmt::format("{}: its memory is on cuda:{}; it may be memory of cuda:{}", name, ordinal, index_));
  }
  return {};
}

Status device(int index, CudaDevice** device) {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<CudaDevice>> devices;
  const Driver* with = nullptr;
  if (const Status found = driver(&with); !found.ok()) {
    return Status::unsupported(fmt::format("device: cuda:{}; must be cpu or emulator here: {}", index, found.message));
  }
  const std::lock_guard lock(mutex);
  std::unique_ptr<CudaDevice>& found = devices[index];
  if (!found) SPLITQ_TRY(CudaDevice::open(*with, index, kernel_cache(), &found));
  *device = found.get();
  return {};
}

}  // namespace splitq::cuda
