// A forward on a CUDA device. What does not depend on addresses is done once; a run enqueues one launch and does nothing
// else: no allocation, no synchronisation, nothing read back.
#pragma once

#include <string>

#include "cuda/device.hpp"
#include "gpu/forward_launch.hpp"
#include "problem/problem.hpp"

namespace splitq::gpu {

/// What kernels for this device are compiled for. Opens the device.
Status cuda_target(int index, Target* target, std::string* architecture);

class CudaForward {
 public:
  /// Loads the kernel, which compiles it where neither memory nor disk has it. For a problem that select() lets pass.
  static Status prepare(const Problem& problem, const Tensors& tensors, int index, CudaForward* forward);

  Status run(const Problem& problem, const Tensors& tensors, void* stream) const;

 private:
  Status load();

  cuda::CudaDevice* device_ = nullptr;
  const cuda::LoadedKernel* kernel_ = nullptr;
  ForwardLaunch launch_;
};

/// That each tensor's memory is the device's. One question to the driver a tensor.
Status check_pointers(const Tensors& tensors, int index);

}  // namespace splitq::gpu
