// grad: what it writes is what forward() and backward() compute from the same numbers.
#include <gtest/gtest.h>

#include "program.hpp"

namespace splitq::testing {
namespace {

class Grad : public Program {
 protected:
  Grad() {
    const std::pair<const char*, const Values<float>*> inputs[] = {
        {"q.npy", &q},       {"k.npy", &k},       {"v.npy", &v},      {"dout.npy", &dout},
        {"dlse.npy", &dlse}, {"bias.npy", &bias}, {"sink.npy", &sink}};
    for (const auto& [name, values] : inputs) write(name, *values);
  }

  Outcome grad(const std::vector<std::string>& more) const {
    std::vector<std::string> args{"grad",     "--q",  "q.npy",  "--k",  "k.npy",  "--v",  "v.npy", "--dout",
                                  "dout.npy", "--dq", "dq.npy", "--dk", "dk.npy", "--dv", "dv.npy"};
    args.insert(args.end(), more.begin(), more.end());
    return run(args);
  }

  void compute(const Options& options, bool with_dlse) {
    forward(view_of(q), view_of(k), view_of(v), view_of(out), options, view_of(lse));
    BackwardTensors t{view_of(dout), view_of(q),  view_of(k),  view_of(v), view_of(out),
                      view_of(lse),  view_of(dq), view_of(dk), view_of(dv)};
    if (with_dlse) t.dlse = view_of(dlse);
    if (options.bias.given()) t.dbias = view_of(dbias);
    if (options.sink.given()) t.dsink = view_of(dsink);
    backward(t, options);
  }

  void expect_written(const std::string& name, const Values<float>& expected) const {
    const auto written = read<float>(name);
    EXPECT_EQ(written.shape, expected.shape) << name;
    EXPECT_EQ(written.data, expected.data) << name;
  }

  Values<float> q = random_values({2, 5, 4, 8}, 1), k = random_values({2, 7, 2, 8}, 2),
                v = random_values({2, 7, 2, 6}, 3);
  Values<float> dout = random_values({2, 5, 4, 6}, 4), dlse = random_values({2, 4, 5}, 5);
  Values<float> bias = random_values({1, 4, 1, 7}, 6), sink = random_values({4}, 7);
  Values<float> out = dout, lse = dlse, dq = q, dk = k, dv = v, dbias = bias, dsink = sink;
};

TEST_F(Grad, Plain) {
  const Outcome outcome = grad({"--causal"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  compute({.causal = true}, false);
  expect_written("dq.npy", dq);
  expect_written("dk.npy", dk);
  expect_written("dv.npy", dv);
  EXPECT_EQ(files(), (std::vector<std::string>{"bias.npy", "dk.npy", "dlse.npy", "dout.npy", "dq.npy", "dv.npy",
                                               "k.npy", "q.npy", "sink.npy", "v.npy"}));
}

TEST_F(Grad, EveryOutput) {
  const Outcome outcome =
      grad({"--bias", "bias.npy", "--sink", "sink.npy", "--dlse", "dlse.npy", "--dbias", "dbias.npy", "--dsink",
            "dsink.npy", "--out", "out.npy", "--lse", "lse.npy", "--dropout", "0.25", "--seed", "3"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  Options options{.dropout = 0.25, .seed = 3};
  options.bias = view_of(bias);
  options.sink = view_of(sink);
  compute(options, true);
  expect_written("out.npy", out);
  expect_written("lse.npy", lse);
  expect_written("dq.npy", dq);
  expect_written("dk.npy", dk);
  expect_written("dv.npy", dv);
  expect_written("dbias.npy", dbias);
  expect_written("dsink.npy", dsink);
}

TEST_F(Grad, HalfPrecisionFiles) {
  ASSERT_EQ(grad({"--dtype", "fp16"}).status, 0);
  EXPECT_EQ(read<Half>("dq.npy").shape, q.shape);
  ASSERT_EQ(grad({"--dtype", "bf16"}).status, 0);
  EXPECT_EQ(read<float>("dk.npy").shape, k.shape);
}

TEST_F(Grad, RefusesPages) {
  write("table.npy", Values<std::int32_t>{{2, 1}, {0, 1}});
  write("used.npy", Values<std::int32_t>{{2}, {7, 7}});
  const auto before = files();
  const Outcome outcome = grad({"--block-table", "table.npy", "--seqlens-k", "used.npy"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("block_table"), std::string::npos) << outcome.err;
  EXPECT_EQ(files(), before);
}

}  // namespace
}  // namespace splitq::testing
