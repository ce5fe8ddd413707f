#include "kernels.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>

#include <CLI/CLI.hpp>
#include <optional>

#include "cuda/architecture.hpp"
#include "cuda/variants.hpp"
#include "splitq/splitq.hpp"

namespace splitq::cli {

void KernelFlags::add_to(CLI::App& app) {
  app.add_option("--arch", architectures, "sm_75,sm_80,...: what to compile for; compute_75,...: PTX")
      ->delimiter(',')
      ->type_name("NAMES");
  app.add_option("--filter", filter, "Only kernels whose name contains this")->type_name("TEXT");
  app.add_option("--jobs", jobs, "Compilations at a time; default: one a core")->check(CLI::Range(1, 1024));
}

std::vector<cuda::KernelSpec> KernelFlags::specs() const {
  std::vector<cuda::KernelSpec> out;
  for (const std::string& architecture : architectures) {
    std::size_t ignored = 0;
    require(cuda::max_shared_bytes(architecture, &ignored), "--arch: ");
    for (cuda::KernelSpec& spec : cuda::variants(architecture)) {
      if (spec.entry.find(filter) != std::string::npos) out.push_back(std::move(spec));
    }
  }
  if (out.empty()) {
    throw Error(StatusCode::kInvalidArgument,
                fmt::format("--filter: '{}' is part of no kernel's name; `splitq kernels` lists them", filter));
  }
  return out;
}

void require(const Status& status, const std::string& argument) {
  if (!status.ok()) throw Error(status.code, argument + status.message);
}

void in_parallel(std::size_t count, int jobs, const std::function<void(std::size_t)>& work) {
  using tbb::global_control;
  constexpr std::size_t kStack = std::size_t{16} << 20;  // the compiler recurses deeply
  const global_control stack(global_control::thread_stack_size, kStack);
  std::optional<global_control> limit;
  if (jobs > 0) limit.emplace(global_control::max_allowed_parallelism, static_cast<std::size_t>(jobs));
  tbb::parallel_for(std::size_t{0}, count, work, tbb::simple_partitioner());
}

}  // namespace splitq::cli
