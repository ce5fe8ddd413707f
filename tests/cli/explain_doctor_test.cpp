// explain and doctor: for people, and with --json for programs.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "program.hpp"

namespace splitq::testing {
namespace {

using nlohmann::json;

class Explain : public Program {};
class Doctor : public Program {};

TEST_F(Explain, PrintsThePlan) {
  const Outcome outcome = run({"explain", "--seqlen-q", "300", "--seqlen-k", "700", "--heads", "8", "--heads-kv", "2",
                               "--head-dim", "64", "--dtype", "bf16", "--causal", "--instruction-set", "scalar"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const char* part : {"bf16", "300", "700", "cpu/scalar", "tile"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << outcome.out;
  }
}

TEST_F(Explain, AgreesWithTheLibrary) {
  const Outcome outcome =
      run({"explain", "--batch", "2", "--seqlen-q", "100", "--heads", "4", "--head-dim", "32", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  Values<float> q = random_values({2, 100, 4, 32}, 1), k = q, v = q, out = q;
  const Plan made = plan(ForwardTensors{view_of(q), view_of(k), view_of(v), view_of(out)});
  const json told = json::parse(outcome.out);
  EXPECT_EQ(told["supported"], true);
  EXPECT_EQ(told["backend"], made.backend());
  EXPECT_EQ(told["workspace_bytes"], made.workspace_bytes());
  std::string lines;
  for (const json& line : told["plan"]) lines += line.get<std::string>() + "\n";
  EXPECT_EQ(lines, made.describe());
}

TEST_F(Explain, EveryForm) {
  const std::vector<std::vector<std::string>> forms{
      {"--packed", "--batch", "3"},
      {"--page-size", "16", "--batch", "3"},
      {"--page-size", "16", "--packed", "--batch", "3"},
      {"--bias", "--mask", "--alibi", "--sink", "--lse", "--window", "-1,0", "--softcap", "3", "--dropout", "0.5"},
      {"--backward", "--bias", "--dbias", "--sink", "--dsink"},
      {"--backward", "--packed", "--batch", "0"},
      // A problem that no machine has the memory for has a plan all the same.
      {"--batch", "1000", "--heads", "128", "--seqlen-k", "1000000000"},
  };
  for (const auto& form : forms) {
    std::vector<std::string> args{"explain", "--seqlen-q", "40", "--head-dim", "24"};
    args.insert(args.end(), form.begin(), form.end());
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.status, 0) << outcome.err << ::testing::PrintToString(args);
  }
}

TEST_F(Explain, SaysWhyThereIsNoPlan) {
  const std::vector<std::string> args{"explain", "--seqlen-q", "40",         "--head-dim", "24",
                                      "--heads", "3",          "--heads-kv", "2"};
  const Outcome text = run(args);
  EXPECT_EQ(text.status, 2);
  EXPECT_EQ(text.out, "");
  EXPECT_NE(text.err.find("multiple"), std::string::npos) << text.err;

  auto with_json = args;
  with_json.emplace_back("--json");
  const Outcome outcome = run(with_json);
  EXPECT_EQ(outcome.status, 2);
  const json told = json::parse(outcome.out);
  EXPECT_EQ(told["supported"], false);
  EXPECT_EQ("splitq: " + told["reason"].get<std::string>() + "\n", text.err);
}

TEST_F(Explain, AbsurdSizesEndAtOnce) {
  const std::string huge = "4611686018427387904";
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--batch", huge},
                                             {"--batch", huge, "--packed"},
                                             {"--seqlen-k", huge, "--page-size", "1"},
                                             {"--batch", "1000000000000", "--packed"},
                                             {"--batch", huge, "--page-size", huge},
                                             {"--heads", huge, "--packed"},
                                             {"--batch", "-1"},
                                             {"--heads", "many"}}) {
    std::vector<std::string> args{"explain", "--seqlen-q", "40", "--head-dim", "24"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.status, 2) << ::testing::PrintToString(args);
    EXPECT_NE(outcome.err, "");
  }
}

TEST_F(Doctor, TellsWhatTheLibraryTells) {
  const Outcome outcome = run({"doctor", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json told = json::parse(outcome.out);
  EXPECT_EQ(told["splitq"], version());
  EXPECT_GE(told["cpus"]["usable"], 1);
  EXPECT_GT(told["memory_bytes"], 0);
  EXPECT_NE(told["executable"], "");
  const auto expected = backends();
  ASSERT_EQ(told["backends"].size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(told["backends"][i]["name"], expected[i].name);
    EXPECT_EQ(told["backends"][i]["available"], expected[i].available);
    EXPECT_EQ(told["backends"][i]["chosen"], expected[i].chosen);
    EXPECT_EQ(told["backends"][i]["why"], expected[i].why);
  }
}

TEST_F(Doctor, Text) {
  const Outcome outcome = run({"doctor"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const char* part : {version(), "cpus", "memory", "backends", "cpu/scalar", "chosen"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << outcome.out;
  }
}

TEST_F(Doctor, VersionAndHelp) {
  const Outcome outcome = run({"--version"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, std::string("splitq ") + version() + "\n");
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{{"--help"},
                                                                                    {"attend", "--help"},
                                                                                    {"grad", "--help"},
                                                                                    {"explain", "--help"},
                                                                                    {"doctor", "--help"},
                                                                                    {"bench", "--help"}}) {
    EXPECT_EQ(run(args).status, 0) << args[0];
  }
}

}  // namespace
}  // namespace splitq::testing
