// A forward in the emulator, in a program that has splitq from its shared library alone.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "splitq/splitq.hpp"

int main() {
  using namespace splitq;
  constexpr std::int64_t kRows = 70, kHeadDim = 64;
  constexpr std::uint16_t kOne = 0x3F80;  // in bf16
  std::vector<std::uint16_t> q(kRows * kHeadDim, kOne), k = q, v = q, out(q.size());
  const auto tensor = [&](std::vector<std::uint16_t>& x) {
    return view(x.data(), DType::kBf16, {1, kRows, 1, kHeadDim});
  };
  try {
    Execution execution;
    execution.device = {DeviceKind::kEmulator, 0};
    forward(tensor(q), tensor(k), tensor(v), tensor(out), {.causal = true}, {}, execution);
  } catch (const std::exception& error) {
    std::puts(error.what());
    return 1;
  }
  return out == v ? 0 : 2;  // the mean of equal values is the value
}
