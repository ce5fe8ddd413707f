#include "cpu/instruction_sets.hpp"

#include <hwy/detect_targets.h>
#include <hwy/targets.h>

#include <cstdlib>
#include <vector>

namespace splitq::cpu {

const Kernels& kernels_avx3_bf16();
const Kernels& kernels_avx3();
const Kernels& kernels_avx2();
const Kernels& kernels_sse4();
const Kernels& kernels_neon();
const Kernels& kernels_scalar();

#if HWY_ARCH_X86
namespace {
bool has_bf16_dot() { return __builtin_cpu_supports("avx512bf16") != 0; }
}  // namespace
#endif

std::span<const InstructionSet> instruction_sets() {
  static const auto sets = [] {
    const std::int64_t has = hwy::SupportedTargets();
    std::vector<InstructionSet> all;
#if HWY_ARCH_X86
    const bool avx3 = (has & HWY_AVX3) != 0;
    all.push_back({"avx3_bf16", "AVX-512 with bf16 dot products", avx3 && has_bf16_dot(), kernels_avx3_bf16});
    all.push_back({"avx3", "AVX-512 (F, VL, DQ, BW)", avx3, kernels_avx3});
    all.push_back({"avx2", "AVX2 with FMA and F16C", (has & HWY_AVX2) != 0, kernels_avx2});
    all.push_back({"sse4", "SSE 4.2", (has & HWY_SSE4) != 0, kernels_sse4});
#elif HWY_ARCH_ARM_A64
    all.push_back({"neon", "Armv8 NEON", (has & HWY_NEON) != 0, kernels_neon});
#endif
    all.push_back({"scalar", "no vector instructions", true, kernels_scalar});
    return all;
  }();
  return sets;
}

const InstructionSet* find_instruction_set(std::string_view name) {
  for (const InstructionSet& set : instruction_sets()) {
    if (set.name == name) return &set;
  }
  return nullptr;
}

const InstructionSet& best_instruction_set() {
  for (const InstructionSet& set : instruction_sets()) {
    if (set.available) return set;
  }
  return instruction_sets().back();
}

std::string_view forced_instruction_set() {
  const char* name = std::getenv("SPLITQ_INSTRUCTION_SET");
  return name == nullptr ? std::string_view() : name;
}

}  // namespace splitq::cpu
