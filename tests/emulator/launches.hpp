// Every test runs in both completion modes and several interleavings.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "emulator/emulator.hpp"

namespace splitq::emulator::testing {

inline constexpr std::uint64_t kSeeds = 4;

/// Calls check(report) for each mode and seed; `reset` puts the kernel's memory back first.
inline void for_each_run(
    Launch launch, const std::function<void()>& kernel, const std::function<void(const Report&)>& check,
    const std::function<void()>& reset = [] {}) {
  for (const Completion completion : {Completion::kAtOnce, Completion::kLate}) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(std::string(completion == Completion::kLate ? "late" : "at once") + ", seed " +
                   std::to_string(seed));
      launch.completion = completion;
      launch.seed = seed;
      reset();
      check(run(launch, kernel));
    }
  }
}

inline void expect_clean(const Report& report) { EXPECT_TRUE(report.clean()) << report.to_string(); }

/// Flagged in every mode and interleaving, as `fault` and as nothing else.
inline void expect_flagged(const Launch& launch, Fault fault, const std::function<void()>& kernel,
                           const std::string& text = "") {
  for_each_run(launch, kernel, [&](const Report& report) {
    EXPECT_TRUE(report.has(fault)) << name(fault) << " is missing\n" << report.to_string();
    for (const Finding& f : report.found) EXPECT_EQ(f.fault, fault) << report.to_string();
    EXPECT_NE(report.to_string().find(text), std::string::npos) << report.to_string();
  });
}

inline void expect_clean(const Launch& launch, const std::function<void()>& kernel) {
  for_each_run(launch, kernel, [](const Report& report) { expect_clean(report); });
}

}  // namespace splitq::emulator::testing
