// attend: what it writes is what the library computes from the same numbers.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "program.hpp"

namespace splitq::testing {
namespace {

/// q (2, 5, 4, 8), k (2, 7, 2, 8), v (2, 7, 2, 6) in files, and where forward() writes.
class Attend : public Program {
 protected:
  Attend() {
    write("q.npy", q);
    write("k.npy", k);
    write("v.npy", v);
  }

  Outcome attend(const std::vector<std::string>& more) const {
    std::vector<std::string> args{"attend", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "out.npy"};
    args.insert(args.end(), more.begin(), more.end());
    return run(args);
  }

  /// The files hold what forward() computes with these options.
  void expect_forward(const Options& options) {
    forward(view_of(q), view_of(k), view_of(v), view_of(out), options, view_of(lse));
    const auto written = read<float>("out.npy");
    EXPECT_EQ(written.shape, out.shape);
    EXPECT_EQ(written.data, out.data);
    const auto written_lse = read<float>("lse.npy");
    EXPECT_EQ(written_lse.shape, lse.shape);
    EXPECT_EQ(written_lse.data, lse.data);
  }

  Values<float> q = random_values({2, 5, 4, 8}, 1), k = random_values({2, 7, 2, 8}, 2),
                v = random_values({2, 7, 2, 6}, 3);
  Values<float> out = random_values({2, 5, 4, 6}, 4), lse = random_values({2, 4, 5}, 5);
};

TEST_F(Attend, Plain) {
  const Outcome outcome = attend({"--lse", "lse.npy"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out + outcome.err, "");
  expect_forward({});
  EXPECT_EQ(files(), (std::vector<std::string>{"k.npy", "lse.npy", "out.npy", "q.npy", "v.npy"}));
}

TEST_F(Attend, EveryNumberedOption) {
  const Outcome outcome =
      attend({"--lse", "lse.npy", "--causal", "--window", "3,-1", "--scale", "0.25", "--softcap", "2.5", "--dropout",
              "0.3", "--seed", "18446744073709551615", "--offset", "12", "--device", "cpu", "--threads", "1"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  Options options{.scale = 0.25, .causal = true, .window_left = 3, .softcap = 2.5, .dropout = 0.3};
  options.seed = std::numeric_limits<std::uint64_t>::max();
  options.offset = 12;
  expect_forward(options);
}

TEST_F(Attend, EveryOptionThatIsATensor) {
  auto bias = random_values({1, 4, 5, 7}, 6), slopes = random_values({2, 4}, 7), sink = random_values({4}, 8);
  Values<std::uint8_t> mask{{2, 1, 5, 7}, {}};
  for (int i = 0; i < 70; ++i) mask.data.push_back(i % 3 != 0);
  Values<std::int32_t> used_q{{2}, {5, 3}}, used_k{{2}, {4, 7}};
  write("bias.npy", bias);
  write("alibi.npy", slopes);
  write("sink.npy", sink);
  write("seqlens_q.npy", used_q);
  write("seqlens_k.npy", used_k);
  // Any byte but 0 is true to NumPy.
  Values<std::uint8_t> odd = mask;
  for (std::uint8_t& m : odd.data) m = m != 0 ? 0x82 : 0;
  write("mask.npy", odd);

  const Outcome outcome =
      attend({"--lse", "lse.npy", "--bias", "bias.npy", "--alibi", "alibi.npy", "--sink", "sink.npy", "--mask",
              "mask.npy", "--seqlens-q", "seqlens_q.npy", "--seqlens-k", "seqlens_k.npy"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  Options options;
  options.bias = view_of(bias);
  options.alibi_slopes = view_of(slopes);
  options.sink = view_of(sink);
  options.mask = view(mask.data.data(), DType::kBool, {2, 1, 5, 7});
  options.seqlens_q = view_of(used_q);
  options.seqlens_k = view_of(used_k);
  expect_forward(options);
}

TEST_F(Attend, PackedSequences) {
  q = random_values({9, 4, 8}, 1), k = random_values({11, 2, 8}, 2), v = random_values({11, 2, 6}, 3);
  out = random_values({9, 4, 6}, 4), lse = random_values({4, 9}, 5);
  Values<std::int32_t> cu_q{{4}, {0, 4, 4, 9}}, cu_k{{4}, {0, 5, 8, 11}};
  write("q.npy", q);
  write("k.npy", k);
  write("v.npy", v);
  write("cu_q.npy", cu_q);
  write("cu_k.npy", Values<std::int64_t>{{4}, {0, 5, 8, 11}});
  const Outcome outcome =
      attend({"--lse", "lse.npy", "--causal", "--cu-seqlens-q", "cu_q.npy", "--cu-seqlens-k", "cu_k.npy"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  Options options{.causal = true};
  options.cu_seqlens_q = view_of(cu_q);
  options.cu_seqlens_k = view_of(cu_k);
  expect_forward(options);
}

TEST_F(Attend, PagedCache) {
  k = random_values({5, 4, 2, 8}, 2), v = random_values({5, 4, 2, 6}, 3);
  Values<std::int32_t> table{{2, 2}, {3, 0, 4, 2}}, used{{2}, {8, 5}};
  write("k.npy", k);
  write("v.npy", v);
  write("table.npy", table);
  write("seqlens_k.npy", used);
  const Outcome outcome = attend({"--lse", "lse.npy", "--block-table", "table.npy", "--seqlens-k", "seqlens_k.npy"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  Options options;
  options.block_table = view_of(table);
  options.seqlens_k = view_of(used);
  expect_forward(options);
}

TEST_F(Attend, FortranOrder) {
  // The same q, its elements in the order of the first index.
  std::string header = npy::make_header(npy::Type::kFloat32, q.shape);
  header.replace(header.find("False, "), 7, "True , ");
  std::vector<float> columns;
  for (std::int64_t d = 0; d < 8; ++d) {
    for (std::int64_t h = 0; h < 4; ++h) {
      for (std::int64_t s = 0; s < 5; ++s) {
        for (std::int64_t b = 0; b < 2; ++b) columns.push_back(q.data[((b * 5 + s) * 4 + h) * 8 + d]);
      }
    }
  }
  write_bytes("q.npy", header + std::string(reinterpret_cast<const char*>(columns.data()), columns.size() * 4));
  const Outcome outcome = attend({"--lse", "lse.npy"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  expect_forward({});
}

TEST_F(Attend, Float64IsComputedAsFp32) {
  for (const auto& [name, values] : {std::pair{"q.npy", &q}, {"k.npy", &k}, {"v.npy", &v}}) {
    write(name, Values<double>{values->shape, {values->data.begin(), values->data.end()}});
  }
  const Outcome outcome = attend({"--lse", "lse.npy"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  expect_forward({});
}

TEST_F(Attend, NoQueriesAndNoKeys) {
  q = random_values({2, 0, 4, 8}, 1), out = random_values({2, 0, 4, 6}, 1), lse = random_values({2, 4, 0}, 1);
  write("q.npy", q);
  ASSERT_EQ(attend({"--lse", "lse.npy"}).status, 0);
  expect_forward({});

  q = random_values({2, 5, 4, 8}, 1), out = random_values({2, 5, 4, 6}, 1), lse = random_values({2, 4, 5}, 1);
  k = random_values({2, 0, 2, 8}, 1), v = random_values({2, 0, 2, 6}, 1);
  write("q.npy", q);
  write("k.npy", k);
  write("v.npy", v);
  ASSERT_EQ(attend({"--lse", "lse.npy"}).status, 0);
  expect_forward({});
  EXPECT_EQ(lse.data, std::vector<float>(40, -std::numeric_limits<float>::infinity()));
}

TEST_F(Attend, ResultsReplaceInputsAndFollowLinks) {
  write_bytes("real.npy", "older");
  std::filesystem::create_symlink("real.npy", path("link.npy"));
  const Outcome outcome =
      run({"attend", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "q.npy", "--lse", "link.npy"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(read<float>("q.npy").shape, out.shape);
  EXPECT_TRUE(std::filesystem::is_symlink(path("link.npy")));
  EXPECT_EQ(read<float>("real.npy").shape, lse.shape);
}

/// With one key the output is v: what is written is v in the type that was computed in.
class Rounding : public Program {
 protected:
  template <class In, class Out>
  std::vector<Out> through(const std::string& dtype, const std::vector<In>& numbers) const {
    const auto n = static_cast<std::int64_t>(numbers.size());
    write("q.npy", Values<In>{{1, 1, 1, 1}, {In{}}});
    write("v.npy", Values<In>{{1, 1, 1, n}, numbers});
    const Outcome outcome =
        run({"attend", "--q", "q.npy", "--k", "q.npy", "--v", "v.npy", "--out", "out.npy", "--dtype", dtype});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return read<Out>("out.npy").data;
  }
};

TEST_F(Rounding, ToFp16) {
  // Ties go to even, what lies beyond 65504 by half a step or more is infinite, subnormal numbers are kept.
  const std::vector<double> numbers{1.0, 1.0 + 0x1p-11, 1.0 + 0x3p-11, -2.5, 65519.9, -65504.0, 0x1p-24, 0x1p-15};
  const std::vector<Half> expected{{0x3c00}, {0x3c00}, {0x3c02}, {0xc100}, {0x7bff}, {0xfbff}, {0x0001}, {0x0200}};
  EXPECT_EQ((through<double, Half>("fp16", numbers)), expected);
}

TEST_F(Rounding, ToBf16WrittenAsFloat32) {
  const std::vector<float> numbers{1.0f, 1.0f + 0x1p-8f, 1.0f + 0x3p-8f, 3.14159265f, -1e30f};
  const std::vector<float> expected{1.0f, 1.0f, 1.0f + 0x1p-6f, 3.140625f, -0x1.94p99f};
  EXPECT_EQ((through<float, float>("bf16", numbers)), expected);
}

TEST_F(Rounding, FromFp16) {
  const std::vector<Half> numbers{{0x3c00}, {0x0001}, {0x83ff}, {0x7bff}, {0xc100}};
  const std::vector<float> expected{1.0f, 0x1p-24f, -0x3ffp-24f, 65504.0f, -2.5f};
  EXPECT_EQ((through<Half, float>("fp32", numbers)), expected);
  EXPECT_EQ((through<Half, Half>("fp16", numbers)), numbers);
}

}  // namespace
}  // namespace splitq::testing
