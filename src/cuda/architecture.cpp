#include "cuda/architecture.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace splitq::cuda {
namespace {

struct Architecture {
  int compute_capability;
  bool specific;  // has instructions of its own, which only the suffix "a" opens (wgmma, tcgen05)
  std::size_t shared_kib;
};

constexpr std::array<Architecture, 11> kArchitectures{{{75, false, 64},
                                                       {80, false, 163},
                                                       {86, false, 99},
                                                       {87, false, 163},
                                                       {89, false, 99},
                                                       {90, true, 227},
                                                       {100, true, 227},
                                                       {103, true, 227},
                                                       {110, true, 227},
                                                       {120, true, 99},
                                                       {121, true, 99}}};

constexpr std::string_view kReal = "sm_", kVirtual = "compute_";

const Architecture* find(int compute_capability) {
  const auto at = std::ranges::find(kArchitectures, compute_capability, &Architecture::compute_capability);
  return at == kArchitectures.end() ? nullptr : at;
}

std::string name_of(const Architecture& a) {
  return fmt::format("{}{}{}", kReal, a.compute_capability, a.specific ? "a" : "");
}

const Architecture* find(std::string_view name) {
  for (const std::string_view prefix : {kReal, kVirtual}) {
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    int number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    const Architecture* found = error == std::errc() ? find(number) : nullptr;
    const std::string_view suffix(end, static_cast<std::size_t>(name.data() + name.size() - end));
    return found && (suffix.empty() || (suffix == "a" && found->specific)) ? found : nullptr;
  }
  return nullptr;
}

}  // namespace

bool is_virtual(const std::string& architecture) { return architecture.starts_with(kVirtual); }

std::vector<std::string> known_architectures() {
  std::vector<std::string> out;
  for (const Architecture& a : kArchitectures) out.push_back(name_of(a));
  return out;
}

Status max_shared_bytes(const std::string& architecture, std::size_t* bytes) {
  const Architecture* found = find(architecture);
  if (found == nullptr) {
    return Status::invalid(fmt::format("architecture: '{}'; it may be {} (compute_ in place of sm_: PTX)", architecture,
                                       fmt::join(known_architectures(), ", ")));
  }
  *bytes = found->shared_kib << 10;
  return {};
}

int compute_capability(const std::string& architecture) {
  const Architecture* found = find(architecture);
  return found ? found->compute_capability : 0;
}

std::string architecture_for(int compute_capability, const std::vector<int>& supported) {
  const Architecture* own = find(compute_capability);
  if (own && std::ranges::find(supported, compute_capability) != supported.end()) return name_of(*own);
  int newest = 0;
  for (const int a : supported) {
    if (a <= compute_capability && find(a)) newest = std::max(newest, a);
  }
  return newest == 0 ? "" : fmt::format("{}{}", kVirtual, newest);
}

}  // namespace splitq::cuda
