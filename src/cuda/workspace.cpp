#include "cuda/workspace.hpp"

#include <fmt/format.h>

#include <utility>

namespace splitq::cuda {

Status Workspace::allocate(const CudaDevice& device, std::size_t bytes, Stream stream, Workspace* workspace) {
  Workspace out;
  if (bytes > 0) {
    const CudaDevice::Scope scope(device);
    SPLITQ_TRY(scope.status());
    const Driver& driver = device.driver();
    // Without memory pools (some virtual GPUs) the device waits; a graph cannot capture that.
    Status got = device.properties().memory_pools
                     ? check(driver, driver.mem_alloc_async(&out.address_, bytes, stream), "cuMemAllocAsync")
                     : check(driver, driver.mem_alloc(&out.address_, bytes), "cuMemAlloc");
    if (!got.ok()) {
      got.message = fmt::format("workspace of {} bytes on cuda:{}: {}", bytes, device.index(), got.message);
      return got;
    }
    out.device_ = &device;
    out.stream_ = stream;
  }
  *workspace = std::move(out);
  return {};
}

Workspace::~Workspace() {
  if (!device_) return;
  const CudaDevice::Scope scope(*device_);
  if (device_->properties().memory_pools)
    device_->driver().mem_free_async(address_, stream_);
  else
    device_->driver().mem_free(address_);
}

void Workspace::swap(Workspace& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(address_, other.address_);
  std::swap(stream_, other.stream_);
}

}  // namespace splitq::cuda
