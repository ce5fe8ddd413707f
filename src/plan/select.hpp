// The choices of each kind of device, of which select() makes a plan.
#pragma once

#include "plan/plan.hpp"

namespace splitq {

Status select_cpu(const Problem& problem, const Execution& execution, CpuPlan* plan);

/// For a CUDA device, which is opened for it, or the emulator. Compiles nothing.
Status select_gpu(const Problem& problem, const Tensors& tensors, const Execution& execution, Device device,
                  GpuPlan* plan);

}  // namespace splitq
