// Memory for one run, given and taken back in the order of its stream.
#pragma once

#include <cstddef>

#include "cuda/device.hpp"

namespace splitq::cuda {

class Workspace {
 public:
  Workspace() = default;
  Workspace(Workspace&& other) noexcept { swap(other); }
  Workspace& operator=(Workspace&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Workspace();

  /// 0 bytes: nothing, and ok. The memory is the stream's: what runs on another must wait for this one.
  static Status allocate(const CudaDevice& device, std::size_t bytes, Stream stream, Workspace* workspace);

  DevicePointer address() const { return address_; }

 private:
  void swap(Workspace& other) noexcept;

  const CudaDevice* device_ = nullptr;
  DevicePointer address_ = 0;
  Stream stream_ = nullptr;
};

}  // namespace splitq::cuda
