// Random inputs are fresh in every run. The seed is printed; SPLITQ_TEST_SEED repeats a run.
#pragma once

#include <cstdint>

namespace splitq::testing {

/// The seed of this process.
std::uint64_t run_seed();

/// The next seed of the current test: a function of run_seed(), the test's name and how many it has drawn.
std::uint64_t next_seed();

}  // namespace splitq::testing
