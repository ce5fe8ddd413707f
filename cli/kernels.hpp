// What the commands kernels and precompile share: which kernels, for which architectures, and a compilation of them all
// with the cores of this machine.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <string>
#include <vector>

#include "cuda/kernel_spec.hpp"
#include "problem/status.hpp"

namespace splitq::cli {

struct KernelFlags {
  std::vector<std::string> architectures;
  std::string filter;
  int jobs = 0;

  void add_to(CLI::App& app);
  /// Refuses an architecture that is none, and a filter that leaves nothing.
  std::vector<cuda::KernelSpec> specs() const;
};

/// Throws what is not ok; `argument` comes before the message.
void require(const Status& status, const std::string& argument = "");

/// work(i) for every i below count, `jobs` at a time (0: as many as there are cores). The first exception ends it.
void in_parallel(std::size_t count, int jobs, const std::function<void(std::size_t)>& work);

}  // namespace splitq::cli
