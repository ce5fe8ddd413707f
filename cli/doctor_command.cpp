// doctor: what this machine offers, which backend would be used and why, versions and paths.
#include <fmt/format.h>
#include <oneapi/tbb/version.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "cuda/device.hpp"
#include "cuda/nvrtc.hpp"
#include "default_device.hpp"
#include "machine.hpp"
#include "splitq/splitq.hpp"

namespace splitq::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string executable() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : path.string();
}

const char* compiler() {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

/// Driver, compiler and devices; of what is missing, why.
Json cuda_report() {
  Json json;
  const cuda::Driver* driver = nullptr;
  const Status found = cuda::driver(&driver);
  json["driver"] = found.ok() ? cuda::version_string(driver->version) : found.message;
  const cuda::Nvrtc* nvrtc = nullptr;
  const Status compiler_found = cuda::nvrtc(&nvrtc);
  json["compiler"] = compiler_found.ok() ? fmt::format("{} ({})", nvrtc->name(), nvrtc->path) : compiler_found.message;
  json["kernel_cache"] = cuda::default_cache_folder().string();
  json["devices"] = Json::array();
  int count = 0;
  if (!found.ok() || !cuda::device_count(*driver, &count).ok()) return json;
  for (int i = 0; i < count; ++i) {
    cuda::DeviceProperties p;
    if (const Status read = cuda::read_properties(*driver, i, &p); !read.ok()) p.name = read.message;
    json["devices"].push_back({{"device", fmt::format("cuda:{}", i)},
                               {"name", p.name},
                               {"compute_capability", p.compute_capability},
                               {"multiprocessors", p.multiprocessors},
                               {"shared_bytes_per_block", p.shared_bytes_per_block},
                               {"memory_bytes", p.memory_bytes}});
  }
  return json;
}

Json report() {
  Json json;
  json["splitq"] = version();
  json["compiler"] = compiler();
  json["libraries"] = {
      {"oneTBB", TBB_VERSION_STRING},
      {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
      {"CLI11", CLI11_VERSION}};
  json["executable"] = executable();

  const Machine machine = this_machine();
  json["cpu"] = machine.cpu;
  json["cpu_features"] = machine.features;
  json["cpus"] = {{"online", machine.cpus_online}, {"usable", machine.cpus_usable}};
  json["memory_bytes"] = machine.memory_bytes;
  json["caches"] = Json::array();
  for (const Cache& cache : machine.caches) {
    json["caches"].push_back(
        {{"level", cache.level}, {"type", cache.type}, {"bytes", cache.bytes}, {"cpus", cache.cpus}});
  }
  json["cuda"] = cuda_report();
  json["backends"] = Json::array();
  for (const BackendInfo& b : backends()) {
    json["backends"].push_back({{"name", b.name}, {"available", b.available}, {"chosen", b.chosen}, {"why", b.why}});
  }
  const Choice automatic = default_device();
  json["auto"] = {{"device", automatic.device.kind == DeviceKind::kCuda ? "cuda:0" : "cpu"}, {"why", automatic.why}};
  return json;
}

std::string size_text(std::int64_t bytes) {
  if (bytes >= std::int64_t{1} << 30) return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
  return bytes >= 1 << 20 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

std::string joined(const Json& strings) {
  std::string out;
  for (const Json& s : strings) out += (out.empty() ? "" : " ") + s.get<std::string>();
  return out;
}

void print_text(const Json& json) {
  const auto line = [](const char* name, const std::string& value) { fmt::print("{:<13}{}\n", name, value); };
  line("splitq", json["splitq"]);
  line("executable", json["executable"]);
  line("compiler", json["compiler"]);
  std::string libraries;
  for (const auto& [name, number] : json["libraries"].items()) {
    libraries += fmt::format("{}{} {}", libraries.empty() ? "" : ", ", name, number.get<std::string>());
  }
  line("libraries", libraries);
  line("cpu", json["cpu"]);
  line("features", joined(json["cpu_features"]));
  line("cpus", fmt::format("{} usable by this process, {} online", json["cpus"]["usable"].get<int>(),
                           json["cpus"]["online"].get<int>()));
  line("memory", size_text(json["memory_bytes"]));
  for (const Json& cache : json["caches"]) {
    line("cache",
         fmt::format("L{} {:<12} {:>8}, shared by cpus {}", cache["level"].get<int>(), cache["type"].get<std::string>(),
                     size_text(cache["bytes"]), cache["cpus"].get<std::string>()));
  }
  const Json& gpu = json["cuda"];
  fmt::print("\ncuda\n");
  fmt::print("  {:<13}{}\n  {:<13}{}\n  {:<13}{}\n", "driver", gpu["driver"].get<std::string>(), "compiler",
             gpu["compiler"].get<std::string>(), "kernel cache", gpu["kernel_cache"].get<std::string>());
  for (const Json& d : gpu["devices"]) {
    fmt::print("  {:<13}{}, compute capability {:.1f}, {} multiprocessors, {} of shared memory a block, {}\n",
               d["device"].get<std::string>(), d["name"].get<std::string>(), d["compute_capability"].get<int>() / 10.0,
               d["multiprocessors"].get<int>(), size_text(d["shared_bytes_per_block"]), size_text(d["memory_bytes"]));
  }
  fmt::print("\nbackends\n");
  for (const Json& b : json["backends"]) {
    const char* state = b["chosen"] ? "chosen" : b["available"] ? "available" : "not available";
    const auto why = b["why"].get<std::string>();
    fmt::print("  {:<14} {}{}{}\n", b["name"].get<std::string>(), state, why.empty() ? "" : ": ", why);
  }
  const Json& automatic = json["auto"];
  fmt::print("\n--device auto  {}: {}\n", automatic["device"].get<std::string>(), automatic["why"].get<std::string>());
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("doctor", "Show what this machine offers and which backend would be used");
  const auto as_json = std::make_shared<bool>(false);
  command.add_flag("--json", *as_json, "Print JSON");
  command.callback([as_json] {
    const Json json = report();
    if (*as_json)
      fmt::print("{}\n", json.dump(2));
    else
      print_text(json);
  });
}

}  // namespace splitq::cli
