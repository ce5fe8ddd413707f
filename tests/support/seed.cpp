#include "support/seed.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>
#include <string>

namespace splitq::testing {

std::uint64_t run_seed() {
  static const std::uint64_t seed = [] {
    const char* given = std::getenv("SPLITQ_TEST_SEED");
    const std::uint64_t value = given ? std::strtoull(given, nullptr, 0) : std::random_device{}();
    std::cout << "SPLITQ_TEST_SEED=" << value << std::endl;
    return value;
  }();
  return seed;
}

std::uint64_t next_seed() {
  static std::string current;
  static std::uint64_t count = 0;
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = test ? std::string(test->test_suite_name()) + "." + test->name() : "";
  if (name != current) current = name, count = 0;
  std::seed_seq sequence{run_seed(), static_cast<std::uint64_t>(std::hash<std::string>{}(name)), count++};
  std::uint32_t words[2];
  sequence.generate(words, words + 2);
  return std::uint64_t{words[0]} << 32 | words[1];
}

}  // namespace splitq::testing
