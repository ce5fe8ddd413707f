// precompile: GPU kernels in a file, for machines without NVRTC. SPLITQ_PACK names the file there.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "commands.hpp"
#include "cuda/kernel_cache.hpp"
#include "cuda/new_file.hpp"
#include "cuda/pack.hpp"
#include "kernels.hpp"
#include "splitq/splitq.hpp"

namespace splitq::cli {
namespace {

struct PrecompileCommand {
  KernelFlags flags;
  std::string out;

  void run() const {
    const std::vector<cuda::KernelSpec> specs = flags.specs();
    cuda::NewFile file;
    require(file.open(out), "--out: ");
    cuda::CacheSettings settings = cuda::CacheSettings::from_environment();
    settings.pack.clear();  // a new pack is made of nothing older
    cuda::KernelCache cache(settings);
    std::vector<cuda::ArchiveEntry> entries(specs.size());
    in_parallel(specs.size(), flags.jobs, [&](std::size_t i) {
      std::shared_ptr<const cuda::CompiledKernel> kernel;
      require(cache.get(specs[i], &kernel));
      require(cache.key_of(specs[i], &entries[i].key));
      entries[i].kernel = *kernel;
    });
    const std::string bytes = cuda::make_pack(entries);
    require(file.publish(bytes), "--out: ");
    fmt::print("{} kernels, {:.1f} MiB: {}\n", entries.size(), static_cast<double>(bytes.size()) / (1 << 20), out);
  }
};

}  // namespace

void add_precompile_command(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("precompile", "Compile GPU kernels into a file for machines without NVRTC");
  const auto state = std::make_shared<PrecompileCommand>();
  state->flags.add_to(command);
  command.get_option("--arch")->required();
  command.add_option("--out", state->out, "The pack; SPLITQ_PACK names it where it is used")
      ->required()
      ->type_name("FILE");
  command.callback([state] { state->run(); });
}

}  // namespace splitq::cli
