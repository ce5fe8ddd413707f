#include "cuda/kernel_spec.hpp"

#include <fmt/format.h>

namespace splitq::cuda {

KernelSpec kernel_spec(const gpu::Kernel& kernel, const std::string& architecture) {
  return {kernel.header, kernel.entry, architecture, static_cast<int>(kernel.threads), kernel.shared_bytes};
}

std::string to_string(const KernelSpec& spec) {
  return fmt::format("{} ({}, {}, {} threads, {} bytes of shared memory)", spec.entry, spec.header, spec.architecture,
                     spec.threads, spec.shared_bytes);
}

}  // namespace splitq::cuda

std::size_t std::hash<splitq::cuda::KernelSpec>::operator()(const splitq::cuda::KernelSpec& spec) const noexcept {
  std::size_t out = 0;
  const auto mix = [&](std::size_t value) { out = out * 0x9E3779B97F4A7C15u + value; };
  for (const std::string* text : {&spec.header, &spec.entry, &spec.architecture}) mix(std::hash<std::string>{}(*text));
  mix(static_cast<std::size_t>(spec.threads));
  mix(spec.shared_bytes);
  return out;
}
