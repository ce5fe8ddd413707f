#include "gpu/run_emulator.hpp"

#include <fmt/format.h>

#include "cuda/architecture.hpp"
#include "emulator/compile.hpp"
#include "problem/views.hpp"

namespace splitq::gpu {
namespace {

std::vector<emulator::MemoryRange> memory_of(const Problem& problem, const Tensors& tensors) {
  std::vector<emulator::MemoryRange> memory;
  for_each_tensor(tensors, [&](const char* name, const TensorView& t) {
    if (!t.given()) return;
    const ByteRange range = byte_range(t);
    memory.push_back({name, static_cast<const std::byte*>(t.data) + range.begin,
                      static_cast<std::size_t>(range.end - range.begin), false});
  });
  for_each_written(problem.direction, tensors, [&](const char* name, const TensorView&) {
    for (emulator::MemoryRange& range : memory) range.writable |= range.name == name;
  });
  return memory;
}

}  // namespace

Target emulated_target() {
  std::size_t shared_bytes = 0;
  const Status known = cuda::max_shared_bytes(kEmulatedArchitecture, &shared_bytes);
  return {known.ok() ? shared_bytes : 0, cuda::compute_capability(kEmulatedArchitecture)};
}

Status run_emulator(const Problem& problem, const Tensors& tensors, const Disturbance& disturbance,
                    emulator::Report* report) {
  ForwardLaunch launch;
  SPLITQ_TRY(make_forward_launch(problem, tensors, emulated_target(), &launch));
  emulator::KernelFunction kernel = nullptr;
  SPLITQ_TRY(emulator::host_compiler().get(launch.header, launch.entry, "splitq::ForwardParams", &kernel));
  if (launch.blocks == 0) return {};
  const emulator::Report found = emulator::run({.grid = {static_cast<unsigned>(launch.blocks), 1, 1},
                                                .threads = launch.threads,
                                                .shared_bytes = launch.shared_bytes,
                                                .completion = disturbance.completion,
                                                .seed = disturbance.seed,
                                                .memory = memory_of(problem, tensors)},
                                               [&] { kernel(&launch.params); });
  if (report) *report = found;
  if (found.clean()) return {};
  return {StatusCode::kInternal,
          fmt::format("emulator: {} does what a kernel may not:\n{}", launch.entry, found.to_string())};
}

}  // namespace splitq::gpu
