// A forward in the emulator, launched as on a GPU.
#pragma once

#include <cstdint>

#include "emulator/emulator.hpp"
#include "gpu/forward_launch.hpp"
#include "problem/problem.hpp"

namespace splitq::gpu {

/// The emulator computes as a GPU of this architecture.
inline constexpr const char* kEmulatedArchitecture = "sm_80";
Target emulated_target();

/// How a run is to be disturbed: a correct kernel gives the same bits whatever these are.
struct Disturbance {
  emulator::Completion completion = emulator::Completion::kLate;
  std::uint64_t seed = 0;
};

/// For a problem that select() lets pass. Compiles the kernel where neither memory nor disk has it. What the emulator finds
/// wrong is an error, with its report.
Status run_emulator(const Problem& problem, const Tensors& tensors, const Disturbance& disturbance = {},
                    emulator::Report* report = nullptr);

}  // namespace splitq::gpu
