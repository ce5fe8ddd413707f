#include "machine.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

namespace splitq::cli {
namespace {

/// As the kernel names them in /proc/cpuinfo.
constexpr std::array<std::string_view, 20> kUsefulFeatures{
    "ssse3",    "sse4_1",   "sse4_2",   "avx",         "f16c",        "fma",         "avx2",
    "avx512f",  "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile",
    "amx_bf16", "asimd",    "asimdhp",  "bf16",        "sve",         "sve2"};

/// The first value of a key in /proc/cpuinfo: "key\t: value".
std::string cpuinfo(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(key)) continue;
    if (line.find_first_not_of(" \t", key.size()) != colon) continue;
    const std::size_t begin = line.find_first_not_of(' ', colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::string first_of(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (std::string value = cpuinfo(key); !value.empty()) return value;
  }
  return "";
}

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<Cache> caches() {
  std::vector<Cache> out;
  for (int i = 0;; ++i) {
    const std::filesystem::path folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i);
    if (!std::filesystem::is_directory(folder)) return out;
    Cache cache{.type = first_line(folder / "type"), .cpus = first_line(folder / "shared_cpu_list")};
    std::istringstream(first_line(folder / "level")) >> cache.level;
    char unit = ' ';
    std::istringstream(first_line(folder / "size")) >> cache.bytes >> unit;
    cache.bytes <<= unit == 'K' ? 10 : unit == 'M' ? 20 : 0;
    out.push_back(cache);
  }
}

int cpus_usable() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.cpu = first_of({"model name", "Processor", "Model"});
  std::istringstream flags(first_of({"flags", "Features"}));
  const std::vector<std::string> present{std::istream_iterator<std::string>(flags), {}};
  for (const std::string_view feature : kUsefulFeatures) {
    if (std::ranges::find(present, feature) != present.end()) machine.features.emplace_back(feature);
  }
  machine.cpus_online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  machine.cpus_usable = cpus_usable();
  machine.memory_bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  machine.caches = caches();
  return machine;
}

}  // namespace splitq::cli
