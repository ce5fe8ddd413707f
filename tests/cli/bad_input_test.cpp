// Bad input: exit status 2, a message that names the argument, its value and what would be right, and no file.
#include <gtest/gtest.h>

#include <limits>

#include "program.hpp"

namespace splitq::testing {
namespace {

class BadInput : public Program {
 protected:
  BadInput() {
    write("q.npy", random_values({1, 5, 4, 8}, 1));
    write("k.npy", random_values({1, 7, 2, 8}, 2));
    write("v.npy", random_values({1, 7, 2, 6}, 3));
    write("dout.npy", random_values({1, 5, 4, 6}, 4));
  }

  /// Refused, with a message that has each of these parts; nothing is left behind, and what was there is as it was.
  void expect_refused(const std::vector<std::string>& args, const std::vector<std::string>& parts) {
    const auto before = files();
    const Outcome outcome = run(args);
    const std::string line = ::testing::PrintToString(args);
    EXPECT_EQ(outcome.status, 2) << line;
    EXPECT_EQ(outcome.out, "") << line;
    for (const std::string& part : parts) EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err << line;
    EXPECT_EQ(files(), before) << line;
  }

  void expect_attend_refused(const std::vector<std::string>& more, const std::vector<std::string>& parts) {
    std::vector<std::string> args{"attend", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "out.npy"};
    args.insert(args.end(), more.begin(), more.end());
    expect_refused(args, parts);
  }
};

TEST_F(BadInput, CommandLine) {
  expect_refused({}, {"A command is required"});
  expect_refused({"attent"}, {"not expected: attent"});
  expect_refused({"attend"}, {"--q is required"});
  expect_refused({"attend", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy"}, {"--out is required"});
  expect_attend_refused({"--colour", "red"}, {"--colour"});
  expect_attend_refused({"--dq", "dq.npy"}, {"--dq"});
}

TEST_F(BadInput, OptionValues) {
  expect_attend_refused({"--dtype", "fp64"}, {"--dtype", "fp64", "fp32", "fp16", "bf16"});
  expect_attend_refused({"--device", "tpu"}, {"--device", "tpu", "auto", "cpu"});
  expect_attend_refused({"--device", "cuda:"}, {"--device", "cuda:", "cuda:N"});
  expect_attend_refused({"--device", "cuda:-1"}, {"--device", "cuda:-1", "cuda:N"});
  expect_attend_refused({"--device", "cuda:1000"}, {"device", "cuda:1000"});
  expect_attend_refused({"--threads", "-1"}, {"--threads", "-1", "0 to"});
  expect_attend_refused({"--threads", "two"}, {"--threads", "two"});
  expect_attend_refused({"--instruction-set", "mmx"}, {"instruction_set", "mmx", "scalar"});
  expect_attend_refused({"--window", "3"}, {"--window", "'3'", "L,R"});
  expect_attend_refused({"--window", "3,"}, {"--window", "'3,'", "L,R"});
  expect_attend_refused({"--window", "1,2,3"}, {"--window", "'1,2,3'", "L,R"});
  expect_attend_refused({"--window", "99999999999999999999,1"}, {"--window", "L,R"});
  expect_attend_refused({"--window", "-2,0"}, {"window_left", "-2", "-1"});
  expect_attend_refused({"--scale", "big"}, {"--scale", "big"});
  expect_attend_refused({"--scale", "nan"}, {"scale", "nan", "finite"});
  expect_attend_refused({"--softcap", "-1"}, {"softcap", "-1", "positive"});
  expect_attend_refused({"--dropout", "1"}, {"dropout", "1", "[0, 1)"});
  expect_attend_refused({"--seed", "-1"}, {"--seed", "-1", "0 to"});
  expect_attend_refused({"--seed", "18446744073709551616"}, {"--seed", "18446744073709551616"});
  expect_attend_refused({"--seed", "1.5"}, {"--seed", "1.5"});
}

TEST_F(BadInput, InputFiles) {
  const auto with_q = [&](const std::string& name, const std::vector<std::string>& parts) {
    expect_refused({"attend", "--q", name, "--k", "k.npy", "--v", "v.npy", "--out", "out.npy"}, parts);
  };
  with_q("nowhere.npy", {"--q 'nowhere.npy'", "no such file"});
  with_q("", {"--q ''", "no such file"});
  with_q(".", {"--q '.'", "not a regular file"});
  with_q("/dev/zero", {"--q '/dev/zero'", "not a regular file"});

  const std::string good = read_bytes("q.npy");
  const auto with_content = [&](const std::string& bytes, const std::vector<std::string>& parts) {
    write_bytes("bad.npy", bytes);
    std::vector<std::string> all{"--q 'bad.npy'"};
    all.insert(all.end(), parts.begin(), parts.end());
    with_q("bad.npy", all);
  };
  with_content("", {"not a .npy file"});
  with_content("hello", {"not a .npy file"});
  with_content(good.substr(0, good.size() - 1), {"(1, 5, 4, 8)", "640 bytes", "639"});
  with_content(good + "x", {"640 bytes", "641"});
  with_content(npy::make_header(npy::Type::kFloat32, Shape{1 << 20, 1 << 20, 4, 8}),
               {"(1048576, 1048576, 4, 8)", "has 0"});
  std::string big_endian = good;
  big_endian.replace(big_endian.find("<f4"), 3, ">f4");
  with_content(big_endian, {"big-endian", "'<f4'"});

  write("bad.npy", Values<std::int64_t>{{1, 5, 4, 8}, std::vector<std::int64_t>(160)});
  with_q("bad.npy", {"--q 'bad.npy'", "int64", "float16, float32, float64"});
  write("bad.npy", random_values({5, 8}, 1));
  with_q("bad.npy", {"--q", "2 dimensions", "(B, Sq, Hq, D)"});
  write("bad.npy", random_values({1, 1, 5, 4, 8}, 1));
  with_q("bad.npy", {"--q 'bad.npy'", "5 dimensions", "1 to 4"});
  write("bad.npy", random_values({}, 1));
  with_q("bad.npy", {"--q 'bad.npy'", "0 dimensions"});
  write("bad.npy", Values<float>{{std::int64_t{1} << 40, 0, 1 << 20, 1}, {}});
  with_q("bad.npy", {"(1099511627776, 0, 1048576"});

  expect_attend_refused({"--mask", "q.npy"}, {"--mask 'q.npy'", "float32", "bool"});
  expect_attend_refused({"--cu-seqlens-q", "q.npy"}, {"--cu-seqlens-q 'q.npy'", "float32", "int32, int64"});
}

TEST_F(BadInput, Shapes) {
  const auto with = [&](const std::string& name, const Shape& shape, const std::vector<std::string>& parts) {
    write("bad.npy", random_values(shape, 1));
    expect_attend_refused({"--" + name, "bad.npy"}, parts);
  };
  with("bias", {1, 4, 5, 6}, {"bias", "(1, 4, 5, 6)"});
  with("bias", {5, 7}, {"bias", "(5, 7)"});
  with("alibi", {3}, {"alibi_slopes", "(3)"});
  with("sink", {2}, {"sink", "(2)"});
  write("k3.npy", random_values({1, 7, 3, 8}, 1));
  write("v3.npy", random_values({1, 7, 3, 6}, 1));
  expect_refused({"attend", "--q", "q.npy", "--k", "k3.npy", "--v", "v3.npy", "--out", "out.npy"}, {"heads", "4", "3"});
  write("half.npy", Values<Half>{{1, 7, 2, 8}, std::vector<Half>(112)});
  expect_refused({"attend", "--q", "q.npy", "--k", "half.npy", "--v", "v.npy", "--out", "out.npy"},
                 {"k", "fp16", "fp32"});
  expect_refused({"grad", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--dout", "q.npy", "--dq", "dq.npy", "--dk",
                  "dk.npy", "--dv", "dv.npy"},
                 {"dout", "(1, 5, 4, 8)"});
}

TEST_F(BadInput, IndexValues) {
  write("q.npy", random_values({5, 4, 8}, 1));
  write("k.npy", random_values({7, 2, 8}, 2));
  write("v.npy", random_values({7, 2, 6}, 3));
  write("cu_k.npy", Values<std::int32_t>{{3}, {0, 3, 7}});
  const auto with_cu_q = [&](const std::vector<std::int64_t>& values, const std::vector<std::string>& parts) {
    write("cu_q.npy", Values<std::int64_t>{{static_cast<std::int64_t>(values.size())}, values});
    expect_attend_refused({"--cu-seqlens-q", "cu_q.npy", "--cu-seqlens-k", "cu_k.npy"}, parts);
  };
  with_cu_q({0, 3, 6}, {"cu_seqlens_q", "6", "5"});
  with_cu_q({0, 3, 2}, {"cu_seqlens_q", "2", "3"});
  with_cu_q({1, 3, 5}, {"cu_seqlens_q", "1", "0"});
  with_cu_q({0, std::numeric_limits<std::int64_t>::max(), 5}, {"cu_seqlens_q"});
  with_cu_q({0, 5}, {"cu_seqlens"});
  write("cu_q.npy", Values<std::int32_t>{{3}, {0, 3, 5}});
  expect_attend_refused({"--cu-seqlens-q", "cu_q.npy"}, {"cu_seqlens_q", "cu_seqlens_k"});

  write("q.npy", random_values({1, 5, 4, 8}, 1));
  write("k.npy", random_values({3, 4, 2, 8}, 2));
  write("v.npy", random_values({3, 4, 2, 6}, 3));
  const auto with_pages = [&](const std::vector<std::int32_t>& pages, std::int32_t used,
                              const std::vector<std::string>& parts) {
    write("table.npy", Values<std::int32_t>{{1, 2}, pages});
    write("used.npy", Values<std::int32_t>{{1}, {used}});
    expect_attend_refused({"--block-table", "table.npy", "--seqlens-k", "used.npy"}, parts);
  };
  with_pages({0, 3}, 8, {"block_table", "3"});
  with_pages({0, -1}, 8, {"block_table", "-1"});
  with_pages({0, 1}, 9, {"seqlens_k", "9", "8"});
  with_pages({0, 1}, -1, {"seqlens_k", "-1"});
  expect_attend_refused({"--block-table", "table.npy"}, {"block_table", "seqlens_k"});
}

TEST_F(BadInput, OutputFiles) {
  const auto with_out = [&](const std::string& name, const std::vector<std::string>& parts) {
    expect_refused({"attend", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", name}, parts);
  };
  with_out("", {"--out", "empty"});
  with_out(".", {"--out '.'", "not a regular file"});
  with_out("/dev/null", {"--out '/dev/null'", "not a regular file"});
  with_out("nowhere/out.npy", {"--out 'nowhere/out.npy'", "no folder"});
  with_out("q.npy/out.npy", {"--out 'q.npy/out.npy'"});
  expect_attend_refused({"--lse", "./out.npy"}, {"--lse './out.npy'", "--out"});
  expect_refused({"grad", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--dout", "dout.npy", "--dq", "dq.npy",
                  "--dk", "dk.npy", "--dv", "dv.npy", "--dbias", "dbias.npy"},
                 {"--dbias", "--bias"});
}

TEST_F(BadInput, AnOlderResultStays) {
  write_bytes("out.npy", "older");
  expect_attend_refused({"--softcap", "-1"}, {"softcap"});
  EXPECT_EQ(read_bytes("out.npy"), "older");
  // One of two results cannot be put in place after the other was written.
  expect_attend_refused({"--lse", "nowhere/lse.npy"}, {"--lse"});
  EXPECT_EQ(read_bytes("out.npy"), "older");
}

}  // namespace
}  // namespace splitq::testing
