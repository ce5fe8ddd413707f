// Tensors on their way to a CUDA device and back: for tools and tests, whose arrays lie in CPU memory.
#pragma once

#include <string>
#include <vector>

#include "cuda/workspace.hpp"
#include "problem/status.hpp"

namespace splitq::gpu {

class DeviceTensors {
 public:
  static Status open(int index, DeviceTensors* tensors);

  /// Copies what the view shows, with all that lies between its elements, into memory of the device, and lets the view show
  /// that. A view that is not given stays so.
  Status upload(const char* name, TensorView* view);

  /// Waits for the device and copies everything back to where it came from.
  Status download() const;

  const cuda::CudaDevice& device() const { return *device_; }

 private:
  struct Copy {
    std::string name;
    std::byte* host = nullptr;
    std::size_t bytes = 0;
    cuda::Workspace memory;
  };

  cuda::CudaDevice* device_ = nullptr;
  std::vector<Copy> copies_;
};

}  // namespace splitq::gpu
