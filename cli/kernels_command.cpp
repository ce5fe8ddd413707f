// kernels: every GPU kernel that a plan can choose, compiled without a GPU; what each takes, and whether that is too much.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "cuda/architecture.hpp"
#include "cuda/compile.hpp"
#include "cuda/kernel_cache.hpp"
#include "cuda/new_file.hpp"
#include "kernels.hpp"
#include "splitq/splitq.hpp"

namespace splitq::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFoundFault = 1;

struct Row {
  cuda::KernelSpec spec;
  cuda::CompiledKernel kernel{};
  std::size_t shared_bytes = 0, shared_limit = 0;
  std::string fault{};  // empty: none
};

Row check(const cuda::Nvrtc& nvrtc, const std::vector<cuda::Source>& sources, const cuda::KernelSpec& spec) {
  Row row{spec};
  if (const Status built = cuda::compile(nvrtc, sources, spec, &row.kernel); !built.ok()) {
    row.fault = built.message;
    return row;
  }
  const cuda::KernelUsage& usage = row.kernel.usage;
  row.shared_bytes = spec.shared_bytes + static_cast<std::size_t>(usage.static_shared_bytes);
  require(cuda::max_shared_bytes(spec.architecture, &row.shared_limit), "--arch: ");
  if (usage.spills()) {
    row.fault = fmt::format("spills {} bytes out, {} in", usage.spill_store_bytes, usage.spill_load_bytes);
  } else if (row.shared_bytes > row.shared_limit) {
    row.fault = fmt::format("{} bytes of shared memory; the architecture has {}", row.shared_bytes, row.shared_limit);
  }
  return row;
}

void print_row(const Row& row) {
  const auto& usage = row.kernel.usage;
  fmt::print("{:<10} {:>9} {:>7} {:>7} {:>6.0f} KiB {:>6.2f} s  {}{}{}\n", row.spec.architecture, usage.registers,
             usage.spill_store_bytes + usage.spill_load_bytes, usage.stack_bytes,
             static_cast<double>(row.shared_bytes) / 1024, row.kernel.seconds, row.spec.entry,
             row.fault.empty() ? "" : "\n  FAULT: ", row.fault);
}

Json to_json(const Row& row) {
  const auto& usage = row.kernel.usage;
  return {{"architecture", row.spec.architecture},
          {"header", row.spec.header},
          {"entry", row.spec.entry},
          {"threads", row.spec.threads},
          {"registers", usage.registers},
          {"spill_store_bytes", usage.spill_store_bytes},
          {"spill_load_bytes", usage.spill_load_bytes},
          {"stack_bytes", usage.stack_bytes},
          {"shared_bytes", row.shared_bytes},
          {"shared_bytes_limit", row.shared_limit},
          {"seconds", row.kernel.seconds},
          {"fault", row.fault}};
}

struct KernelsCommand {
  KernelFlags flags;
  std::string json_path;

  void run() const {
    KernelFlags chosen = flags;
    const cuda::Nvrtc* nvrtc = nullptr;
    require(cuda::nvrtc(&nvrtc), "");
    if (chosen.architectures.empty()) chosen.architectures = default_architectures(*nvrtc);
    const std::vector<cuda::KernelSpec> specs = chosen.specs();
    cuda::NewFile json_file;
    if (!json_path.empty()) require(json_file.open(json_path), "--json: ");
    std::vector<cuda::Source> sources = cuda::embedded_sources();
    const std::string folder = cuda::CacheSettings::from_environment().source_folder;
    if (!folder.empty()) require(cuda::read_sources(folder, &sources), "");

    std::vector<Row> rows(specs.size());
    in_parallel(specs.size(), chosen.jobs, [&](std::size_t i) { rows[i] = check(*nvrtc, sources, specs[i]); });

    fmt::print("{:<10} {:>9} {:>7} {:>7} {:>10} {:>8}  kernel\n", "arch", "registers", "spilled", "stack", "shared",
               "compile");
    Json list = Json::array();
    std::size_t faults = 0;
    for (const Row& row : rows) {
      print_row(row);
      list.push_back(to_json(row));
      faults += !row.fault.empty();
    }
    fmt::print("{} kernels by {}, {} with a fault\n", rows.size(), nvrtc->name(), faults);
    if (!json_path.empty()) {
      const Json all{{"splitq", version()}, {"compiler", nvrtc->name()}, {"faults", faults}, {"kernels", list}};
      require(json_file.publish(all.dump(2) + "\n"), "--json: ");
    }
    if (faults > 0) throw CLI::RuntimeError(kFoundFault);
  }

  /// All that both splitq and this compiler know.
  static std::vector<std::string> default_architectures(const cuda::Nvrtc& nvrtc) {
    const std::vector<int> supported = nvrtc.supported_architectures();
    std::vector<std::string> out;
    for (const int number : supported) {
      std::string name = cuda::architecture_for(number, supported);
      if (!name.empty() && !cuda::is_virtual(name)) out.push_back(std::move(name));
    }
    return out;
  }
};

}  // namespace

void add_kernels_command(CLI::App& app) {
  CLI::App& command =
      *app.add_subcommand("kernels", "Compile every GPU kernel, without a GPU, and show what each takes");
  const auto state = std::make_shared<KernelsCommand>();
  state->flags.add_to(command);
  command.get_option("--arch")->description("sm_75,sm_80,...; compute_75,... for PTX. Default: all");
  command.add_option("--json", state->json_path, "Write the table here too")->type_name("FILE");
  command.footer(
      "Exit status 1: a kernel spills registers, needs more shared memory than there is, or fails to compile.");
  command.callback([state] { state->run(); });
}

}  // namespace splitq::cli
