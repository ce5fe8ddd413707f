// NVRTC: from a KernelSpec and the sources to machine code, with what the assembler says of it. Needs no GPU.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cuda/kernel_spec.hpp"
#include "cuda/nvrtc.hpp"
#include "cuda/sources.hpp"
#include "problem/status.hpp"

namespace splitq::cuda {

/// What a thread or a block of the kernel takes. All 0 where the image is PTX: the driver's compiler decides then.
struct KernelUsage {
  int registers = 0;
  int spill_store_bytes = 0, spill_load_bytes = 0;
  int stack_bytes = 0;
  int static_shared_bytes = 0;

  bool spills() const { return spill_store_bytes > 0 || spill_load_bytes > 0; }
  bool operator==(const KernelUsage&) const = default;
};

struct CompiledKernel {
  std::string lowered_name{};  // of the entry, in the image
  std::string image{};         // cubin, or PTX for a "compute_" architecture
  std::string log{};
  KernelUsage usage{};
  double seconds = 0;      // that the compilation took
  std::string compiler{};  // "NVRTC 13.0"

  bool operator==(const CompiledKernel&) const = default;
};

std::vector<std::string> compile_options(const std::string& architecture);

/// `ptx`, where given, takes the PTX as well.
Status compile(const Nvrtc& nvrtc, const std::vector<Source>& sources, const KernelSpec& spec, CompiledKernel* kernel,
               std::string* ptx = nullptr);

/// From the assembler's log (`ptxas -v`).
KernelUsage parse_usage(const std::string& log);

}  // namespace splitq::cuda
