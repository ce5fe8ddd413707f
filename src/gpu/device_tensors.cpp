#include "gpu/device_tensors.hpp"

#include <fmt/format.h>

#include "problem/views.hpp"

namespace splitq::gpu {

Status DeviceTensors::open(int index, DeviceTensors* tensors) { return cuda::device(index, &tensors->device_); }

Status DeviceTensors::upload(const char* name, TensorView* view) {
  if (!view->given()) return {};
  const ByteRange range = byte_range(*view);
  Copy copy{.name = name,
            .host = static_cast<std::byte*>(view->data) + range.begin,
            .bytes = static_cast<std::size_t>(range.end - range.begin),
            .memory = {}};
  Status status = cuda::Workspace::allocate(*device_, copy.bytes, nullptr, &copy.memory);
  if (!status.ok()) return {status.code, fmt::format("{}: {}", name, status.message)};
  const cuda::CudaDevice::Scope scope(*device_);
  SPLITQ_TRY(scope.status());
  const cuda::Driver& driver = device_->driver();
  if (copy.bytes > 0) {
    SPLITQ_TRY(check(driver, driver.memcpy_htod_async(copy.memory.address(), copy.host, copy.bytes, nullptr),
                     "cuMemcpyHtoDAsync"));
  }
  view->data = reinterpret_cast<std::byte*>(copy.memory.address()) - range.begin;
  view->device = {DeviceKind::kCuda, device_->index()};
  copies_.push_back(std::move(copy));
  return {};
}

Status DeviceTensors::download() const {
  const cuda::CudaDevice::Scope scope(*device_);
  SPLITQ_TRY(scope.status());
  const cuda::Driver& driver = device_->driver();
  for (const Copy& copy : copies_) {
    if (copy.bytes == 0) continue;
    SPLITQ_TRY(check(driver, driver.memcpy_dtoh_async(copy.host, copy.memory.address(), copy.bytes, nullptr),
                     "cuMemcpyDtoHAsync"));
  }
  return check(driver, driver.stream_synchronize(nullptr), "cuStreamSynchronize");
}

}  // namespace splitq::gpu
