// The instruction sets that the library was built for, best first.
#pragma once

#include <span>
#include <string_view>

#include "cpu/kernels.hpp"

namespace splitq::cpu {

struct InstructionSet {
  std::string_view name;         // "avx3"
  std::string_view description;  // "AVX-512 (F, VL, DQ, BW)"
  bool available;                // on this processor
  const Kernels& (*kernels)();
};

std::span<const InstructionSet> instruction_sets();

/// By name; nullptr where there is none.
const InstructionSet* find_instruction_set(std::string_view name);

/// The first that this processor has.
const InstructionSet& best_instruction_set();

/// What the environment variable SPLITQ_INSTRUCTION_SET asks for; empty where it is not set.
std::string_view forced_instruction_set();

}  // namespace splitq::cpu
