// What a GPU, or its emulator, does with a problem.
#include <fmt/format.h>

#include "gpu/forward_launch.hpp"
#include "gpu/run_cuda.hpp"
#include "gpu/run_emulator.hpp"
#include "plan/select.hpp"
#include "problem/features.hpp"
#include "problem/names.hpp"

namespace splitq {

Status select_gpu(const Problem& problem, const Tensors& tensors, const Execution& execution, Device device,
                  GpuPlan* plan) {
  const std::string name = to_string(device);
  if (problem.direction == Direction::kBackward) {
    return Status::unsupported(
        fmt::format("device: {} for backward; must be cpu: gradients are computed there alone", name));
  }
  gpu::Target target = gpu::emulated_target();
  std::string architecture = gpu::kEmulatedArchitecture;
  if (device.kind == DeviceKind::kCuda) SPLITQ_TRY(gpu::cuda_target(device.index, &target, &architecture));
  if (execution.schedule != Schedule{}) {
    return Status::unsupported(fmt::format("schedule: not the default one, on {}; others are for cpu", name));
  }
  if (execution.num_splits > 1) {
    return Status::unsupported(
        fmt::format("num_splits: {}, on {}; must be 0 or 1: keys are split on cpu alone", execution.num_splits, name));
  }
  SPLITQ_TRY(check_features(problem, device.kind));

  gpu::ForwardLaunch launch;
  SPLITQ_TRY(gpu::make_forward_launch(problem, tensors, target, &launch));
  *plan = {.architecture = architecture,
           .kernel = launch.entry,
           .threads = static_cast<int>(launch.threads),
           .shared_bytes = launch.shared_bytes,
           .blocks = launch.blocks};
  return {};
}

}  // namespace splitq
