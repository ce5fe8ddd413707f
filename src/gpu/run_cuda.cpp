#include "gpu/run_cuda.hpp"

#include <fmt/format.h>

#include "cuda/architecture.hpp"
#include "cuda/nvrtc.hpp"

namespace splitq::gpu {
namespace {

Target target_of(const cuda::CudaDevice& device) {
  return {device.properties().shared_bytes_per_block, device.properties().compute_capability};
}

/// Without NVRTC kernels come from a pack, which may be for any architecture that is known.
std::vector<int> compiled_for() {
  const cuda::Nvrtc* nvrtc = nullptr;
  if (cuda::nvrtc(&nvrtc).ok()) return nvrtc->supported_architectures();
  std::vector<int> all;
  for (const std::string& name : cuda::known_architectures()) all.push_back(cuda::compute_capability(name));
  return all;
}

Status architecture_of(const cuda::CudaDevice& device, std::string* architecture) {
  const cuda::DeviceProperties& properties = device.properties();
  *architecture = cuda::architecture_for(properties.compute_capability, compiled_for());
  if (!architecture->empty()) return {};
  return Status::unsupported(fmt::format("device: cuda:{} ({}) of compute capability {:.1f}; must be of at least 7.5",
                                         device.index(), properties.name, properties.compute_capability / 10.0));
}

}  // namespace

Status cuda_target(int index, Target* target, std::string* architecture) {
  cuda::CudaDevice* device = nullptr;
  SPLITQ_TRY(cuda::device(index, &device));
  *target = target_of(*device);
  return architecture_of(*device, architecture);
}

Status CudaForward::prepare(const Problem& problem, const Tensors& tensors, int index, CudaForward* forward) {
  SPLITQ_TRY(cuda::device(index, &forward->device_));
  SPLITQ_TRY(make_forward_launch(problem, tensors, target_of(*forward->device_), &forward->launch_));
  return forward->load();
}

Status CudaForward::load() {
  std::string architecture;
  SPLITQ_TRY(architecture_of(*device_, &architecture));
  return device_->load(cuda::kernel_spec(launch_, architecture), &kernel_);
}

Status CudaForward::run(const Problem& problem, const Tensors& tensors, void* stream) const {
  ForwardLaunch launch;
  launch.aligned = launch_.aligned, launch.blocks = launch_.blocks, launch.params = launch_.params;
  if (!move_to(tensors, &launch)) {
    // Less aligned than what was planned: another kernel, which the device keeps as well.
    CudaForward other;
    SPLITQ_TRY(prepare(problem, tensors, device_->index(), &other));
    return other.run(problem, tensors, stream);
  }
  if (launch.blocks == 0) return {};
  return device_->launch(*kernel_, {static_cast<unsigned>(launch.blocks)}, launch.params,
                         static_cast<cuda::Stream>(stream));
}

Status check_pointers(const Tensors& tensors, int index) {
  cuda::CudaDevice* device = nullptr;
  SPLITQ_TRY(cuda::device(index, &device));
  Status status;
  for_each_tensor(tensors, [&](const char* name, const TensorView& t) {
    if (status.ok() && t.given() && t.size() > 0) status = device->check_pointer(t.data, name);
  });
  return status;
}

}  // namespace splitq::gpu
