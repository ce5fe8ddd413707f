// --device: what runs where, and what is said where it cannot.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "program.hpp"

namespace splitq::testing {
namespace {

using nlohmann::json;

class DeviceFlag : public Program {
 protected:
  DeviceFlag() {
    write("q.npy", random_values({2, 40, 4, 32}, 1));
    write("k.npy", random_values({2, 50, 2, 32}, 2));
    write("v.npy", random_values({2, 50, 2, 24}, 3));
  }
  Outcome attend(const std::string& device, const std::string& out, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args{"attend", "--q",   "q.npy", "--k",      "k.npy", "--v",
                                  "v.npy",  "--out", out,     "--device", device};
    args.insert(args.end(), more.begin(), more.end());
    return run(args);
  }
  double largest_difference(const std::string& a, const std::string& b) const {
    const Values<float> x = read<float>(a), y = read<float>(b);
    EXPECT_EQ(x.shape, y.shape);
    double worst = 0;
    for (std::size_t i = 0; i < x.data.size(); ++i) worst = std::max(worst, std::abs(double(x.data[i]) - y.data[i]));
    return worst;
  }
};

TEST_F(DeviceFlag, TheEmulatorComputesWhatTheCpuDoes) {
  const std::vector<std::string> more{"--dtype", "bf16", "--causal", "--softcap", "2", "--lse", "lse.npy"};
  const Outcome cpu = attend("cpu", "cpu.npy", more);
  ASSERT_EQ(cpu.status, 0) << cpu.err;
  const std::string lse = read_bytes("lse.npy");
  const Outcome emulated = attend("emulator", "emulator.npy", more);
  ASSERT_EQ(emulated.status, 0) << emulated.err;
  EXPECT_LE(largest_difference("cpu.npy", "emulator.npy"), 0.02);
  EXPECT_EQ(read_bytes("lse.npy").size(), lse.size());
}

TEST_F(DeviceFlag, AutoComputesWhereItCan) {
  ASSERT_EQ(attend("auto", "auto.npy").status, 0);
  ASSERT_EQ(attend("cpu", "cpu.npy").status, 0);
  EXPECT_LE(largest_difference("cpu.npy", "auto.npy"), 1e-5);
}

TEST_F(DeviceFlag, RefusalsLeaveNothing) {
  const auto before = files();
  Outcome outcome = attend("cuda:1000", "out.npy", {"--dtype", "fp16"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("device: cuda:1000"), std::string::npos) << outcome.err;
  write("dout.npy", random_values({2, 40, 4, 24}, 4));
  outcome = run({"grad", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--dout", "dout.npy", "--dq", "dq.npy", "--dk",
                 "dk.npy", "--dv", "dv.npy", "--device", "emulator", "--dtype", "fp16"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("device: emulator for backward; must be cpu"), std::string::npos) << outcome.err;
  EXPECT_EQ(files().size(), before.size() + 1);
}

class GpuDeviceFlag : public DeviceFlag {
 protected:
  GpuDeviceFlag() { ::unsetenv("CUDA_VISIBLE_DEVICES"); }
  void SetUp() override {
    const json told = json::parse(run({"doctor", "--json"}).out);
    if (told["auto"]["device"] == "cpu") GTEST_SKIP() << told["auto"]["why"].get<std::string>();
  }
};

TEST_F(GpuDeviceFlag, AGpuComputesWhatTheCpuDoes) {
  for (const char* dtype : {"fp32", "fp16", "bf16"}) {
    const std::vector<std::string> more{"--dtype", dtype, "--causal"};
    ASSERT_EQ(attend("cpu", "cpu.npy", more).status, 0);
    for (const char* device : {"cuda", "cuda:0", "auto"}) {
      const Outcome there = attend(device, "gpu.npy", more);
      ASSERT_EQ(there.status, 0) << there.err;
      if (std::string(dtype) == "fp16") continue;  // its files are not of float32
      EXPECT_LE(largest_difference("cpu.npy", "gpu.npy"), 0.02) << dtype;
    }
  }
}

TEST_F(GpuDeviceFlag, ExplainAndBench) {
  Outcome outcome = run({"explain", "--dtype", "bf16", "--seqlen-q", "512", "--head-dim", "64"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("backend      cuda:0/"), std::string::npos) << outcome.out;
  outcome = run({"bench", "--device", "cuda", "--no-torch", "--seqlen", "1024", "--head-dim", "64", "--causal", "no"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("TFLOP/s"), std::string::npos) << outcome.out;
}

TEST_F(DeviceFlag, DevicesOfADriver) {
  ::setenv("LD_LIBRARY_PATH", SPLITQ_FAKE_DRIVER_FOLDER, 1);
  const Outcome refused = attend("cuda:7", "out.npy"), bench = run({"bench", "--device", "cuda:7"});
  const Outcome doctor = run({"doctor", "--json"});
  const Outcome explain =
      run({"explain", "--device", "cuda:1", "--backward", "--dtype", "bf16", "--seqlen-q", "64", "--head-dim", "64"});
  ::unsetenv("LD_LIBRARY_PATH");
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.err, "splitq: device: cuda:7; it may be cuda:0 to cuda:1\n");
  EXPECT_EQ(bench.err, refused.err);
  EXPECT_EQ(json::parse(doctor.out)["auto"]["device"], "cuda:0");
  EXPECT_EQ(explain.err, "splitq: device: cuda:1 for backward; must be cpu: gradients are computed there alone\n");
}

TEST_F(DeviceFlag, BenchRefusesWhatItDoesNotMeasure) {
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--device", "emulator"}, {"--device", "cuda", "--backward"}, {"--device", "cuda", "--decode"}}) {
    std::vector<std::string> args{"bench", "--no-torch"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.status, 2) << outcome.out;
    EXPECT_EQ(outcome.err.find("splitq: --device: " + more[1]), 0u) << outcome.err;
  }
}

TEST_F(DeviceFlag, ExplainCounts) {
  const std::vector<std::string> args{"explain",    "--device", "emulator", "--count", "--dtype",    "fp16",
                                      "--seqlen-q", "128",      "--heads",  "2",       "--head-dim", "64"};
  const Outcome text = run(args);
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("bank conflicts 0"), std::string::npos) << text.out;
  auto with_json = args;
  with_json.emplace_back("--json");
  const Outcome outcome = run(with_json);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json counters = json::parse(outcome.out)["counters"];
  EXPECT_EQ(counters["matmul"]["flops"], 4 * 2 * 128 * 128 * 64);
  EXPECT_EQ(counters["device_memory"]["bytes_read"], 2 * 3 * 128 * 64 * 2);
  EXPECT_EQ(counters["device_memory"]["bytes_written"], 2 * 128 * 64 * 2);
}

TEST_F(DeviceFlag, ExplainCountsWithOptions) {
  const Outcome outcome = run({"explain", "--device", "emulator", "--count", "--dtype", "bf16", "--seqlen-q", "40",
                               "--batch", "2", "--head-dim", "40", "--bias", "--mask", "--packed", "--lse"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

TEST_F(DeviceFlag, ExplainRefusesToCount) {
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args{"explain", "--count", "--dtype", "fp16", "--seqlen-q", "64", "--head-dim", "64"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.status, 2) << outcome.out;
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  EXPECT_EQ(refused({}), "splitq: --count: given without --device emulator\n");
  EXPECT_NE(refused({"--device", "emulator", "--seqlen-k", "100000000000"}).find("at most 1.0e+10 are emulated"),
            std::string::npos);
  EXPECT_NE(refused({"--device", "emulator", "--backward"}).find("device: emulator for backward"), std::string::npos);
}

}  // namespace
}  // namespace splitq::testing
