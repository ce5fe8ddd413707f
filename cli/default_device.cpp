#include "default_device.hpp"

#include "cuda/device.hpp"

namespace splitq::cli {

Choice default_device() {
  const cuda::Driver* driver = nullptr;
  int count = 0;
  Status status = cuda::driver(&driver);
  if (status.ok()) status = cuda::device_count(*driver, &count);
  if (status.ok() && count == 0) status = Status::unsupported("there is no CUDA device");
  if (!status.ok()) return {{DeviceKind::kCpu, 0}, status.message};
  return {{DeviceKind::kCuda, 0}, "the first CUDA device, for what it supports; cpu for the rest"};
}

}  // namespace splitq::cli
