// bench: that it runs, compares its contestants' results and tells programs what it measured; never how fast.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "program.hpp"

namespace splitq::testing {
namespace {

using nlohmann::json;
using Bench = Program;

TEST_F(Bench, MeasuresEveryContestant) {
  const Outcome outcome = run({"bench", "--quick", "--seqlen", "64", "--head-dim", "64", "--heads", "2", "--causal",
                               "no", "--backward", "--no-torch", "--json", "b.json"});
  if (outcome.err.find("OpenBLAS") != std::string::npos) GTEST_SKIP() << outcome.err;
  ASSERT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  for (const char* name : {"materialised", "splitq FA-1", "splitq FA-2", "SGEMM"}) {
    EXPECT_NE(outcome.out.find(name), std::string::npos) << outcome.out;
  }
  EXPECT_FALSE(json::parse(read_bytes("b.json")).empty());
}

TEST_F(Bench, RefusesWhatItCannotMeasure) {
  const Outcome outcome = run({"bench", "--seqlen", "0", "--no-torch", "--json", "b.json"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("seqlen"), std::string::npos) << outcome.err;
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace splitq::testing
