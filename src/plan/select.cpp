// Where a problem is computed.
#include <fmt/format.h>

#include "cpu/run.hpp"
#include "plan/select.hpp"
#include "problem/names.hpp"

namespace splitq {
namespace {

/// The device that was asked for, if the tensors lie where it reads them.
Status choose_device(const Problem& problem, const Execution& execution, Device* device) {
  const Device lies = problem.device, asked = execution.device;
  if (!is_valid(asked.kind)) {
    return Status::invalid(fmt::format("device: number {}; must be one of auto (0), cpu (1), cuda (2), emulator (3)",
                                       static_cast<int>(asked.kind)));
  }
  if (lies.kind == DeviceKind::kEmulator) {
    return Status::invalid("q: on emulator; must be on cpu, which is the memory that the emulator reads, or on cuda");
  }
  *device = asked.kind == DeviceKind::kAuto ? lies : asked;
  const Device reads = device->kind == DeviceKind::kCuda ? *device : Device{};
  if (lies == reads) return {};
  return Status::invalid(fmt::format("device: {}; must be auto{}, as q is on {}", to_string(asked),
                                     lies.kind == DeviceKind::kCpu ? ", cpu or emulator" : " or " + to_string(lies),
                                     to_string(lies)));
}

}  // namespace

Status select(const Problem& problem, const Tensors& tensors, const Execution& execution, ExecutionPlan* plan) {
  *plan = {};
  SPLITQ_TRY(choose_device(problem, execution, &plan->device));
  if (execution.num_splits < 0) {
    return Status::invalid(fmt::format("num_splits: {}; must be 0 (chosen) or more", execution.num_splits));
  }
  if (execution.stream != nullptr && plan->device.kind != DeviceKind::kCuda) {
    return Status::invalid(fmt::format("stream: given on {}; may be given on cuda alone", to_string(plan->device)));
  }
  if (plan->device.kind != DeviceKind::kCpu) {
    return select_gpu(problem, tensors, execution, plan->device, &plan->gpu);
  }
  SPLITQ_TRY(select_cpu(problem, execution, &plan->cpu));
  plan->workspace_bytes = cpu::workspace_bytes(problem, plan->cpu);
  return {};
}

}  // namespace splitq
