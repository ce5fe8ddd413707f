#include "cpu/instruction_sets.hpp"

#include <hwy/detect_targets.h>
#include <hwy/targets.h>

#include <array>
#include <cstdlib>

namespace splitq::cpu {

const Kernels& kernels_avx3();
const Kernels& kernels_avx2();
const Kernels& kernels_sse4();
const Kernels& kernels_neon();
const Kernels& kernels_scalar();

std::span<const InstructionSet> instruction_sets() {
  static const auto sets = [] {
    const std::int64_t has = hwy::SupportedTargets();
    return std::to_array<InstructionSet>({
#if HWY_ARCH_X86
      {"avx3", "AVX-512 (F, VL, DQ, BW)", (has & HWY_AVX3) != 0, kernels_avx3},
          {"avx2", "AVX2 with FMA and F16C", (has & HWY_AVX2) != 0, kernels_avx2},
          {"sse4", "SSE 4.2", (has & HWY_SSE4) != 0, kernels_sse4},
#elif HWY_ARCH_ARM_A64
      {"neon", "Armv8 NEON", (has & HWY_NEON) != 0, kernels_neon},
#endif
          {"scalar", "no vector instructions", true, kernels_scalar},
    });
  }();
  return sets;
}

const InstructionSet* find_instruction_set(std::string_view name) {
  for (const InstructionSet& set : instruction_sets()) {
    if (set.name == name) return &set;
  }
  return nullptr;
}

const InstructionSet& default_instruction_set() {
  static const InstructionSet& chosen = []() -> const InstructionSet& {
    const char* name = std::getenv("SPLITQ_INSTRUCTION_SET");
    if (name != nullptr) {
      const InstructionSet* forced = find_instruction_set(name);
      if (forced != nullptr && forced->available) return *forced;
    }
    for (const InstructionSet& set : instruction_sets()) {
      if (set.available) return set;
    }
    return instruction_sets().back();
  }();
  return chosen;
}

}  // namespace splitq::cpu
