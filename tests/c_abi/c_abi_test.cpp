// The C interface gives what the C++ interface gives, and refuses what it cannot read.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "splitq/splitq.h"
#include "splitq/splitq.hpp"

namespace splitq::testing {
namespace {

constexpr std::int64_t kB = 2, kSq = 5, kSk = 7, kHq = 4, kHkv = 2, kD = 8;

/// A fp32 array with a view for each interface.
struct Array {
  explicit Array(std::initializer_list<std::int64_t> shape, int seed = 0) : cpp(view(nullptr, DType::kFp32, shape)) {
    data.resize(static_cast<std::size_t>(cpp.size()));
    std::mt19937 rng(static_cast<unsigned>(seed));
    std::normal_distribution<float> normal;
    if (seed != 0)
      for (float& x : data) x = normal(rng);
    cpp.data = data.data();
    c = splitq_tensor_contiguous(data.data(), SPLITQ_FP32, cpp.rank, cpp.shape.data());
  }
  std::vector<float> data;
  TensorView cpp;
  splitq_tensor c = SPLITQ_TENSOR_INIT;
};

class CAbiTest : public ::testing::Test {
 protected:
  CAbiTest() {
    t.q = &q.c, t.k = &k.c, t.v = &v.c, t.out = &out.c, t.softmax_lse = &lse.c;
    g.dout = &dout.c, g.q = &q.c, g.k = &k.c, g.v = &v.c, g.out = &out.c, g.softmax_lse = &lse.c;
    g.dq = &dq.c, g.dk = &dk.c, g.dv = &dv.c, g.dlse = &dlse.c, g.dbias = &dbias.c, g.dsink = &dsink.c;
    c.causal = 1, c.softcap = 2, c.window_left = 3, c.dropout = 0.25, c.seed = 11, c.offset = 5;
    c.has_scale = 1, c.scale = 0.7, c.bias = &bias.c, c.sink = &sink.c, c.alibi_slopes = &alibi.c;
    cpp = {.scale = 0.7,
           .causal = true,
           .window_left = 3,
           .softcap = 2,
           .dropout = 0.25,
           .seed = 11,
           .offset = 5,
           .bias = bias.cpp,
           .alibi_slopes = alibi.cpp,
           .sink = sink.cpp};
  }

  void cpp_forward() { forward(q.cpp, k.cpp, v.cpp, out.cpp, cpp, lse.cpp); }

  Array q{{kB, kSq, kHq, kD}, 1}, k{{kB, kSk, kHkv, kD}, 2}, v{{kB, kSk, kHkv, kD}, 3}, out{{kB, kSq, kHq, kD}};
  Array lse{{kB, kHq, kSq}}, dout{{kB, kSq, kHq, kD}, 4}, dlse{{kB, kHq, kSq}, 5};
  Array dq{{kB, kSq, kHq, kD}}, dk{{kB, kSk, kHkv, kD}}, dv{{kB, kSk, kHkv, kD}};
  Array bias{{1, kHq, kSq, kSk}, 6}, dbias{{1, kHq, kSq, kSk}}, sink = Array({kHq}, 7), dsink{{kHq}},
                                                                alibi{{kB, kHq}, 8};
  splitq_forward_tensors t = SPLITQ_FORWARD_TENSORS_INIT;
  splitq_backward_tensors g = SPLITQ_BACKWARD_TENSORS_INIT;
  splitq_options c = SPLITQ_OPTIONS_INIT;
  Options cpp;
};

TEST_F(CAbiTest, ForwardIsTheSame) {
  cpp_forward();
  const auto expected_out = out.data, expected_lse = lse.data;
  out.data.assign(out.data.size(), -9), lse.data.assign(lse.data.size(), -9);
  ASSERT_EQ(splitq_forward(&t, &c, nullptr), SPLITQ_OK) << splitq_last_error();
  EXPECT_EQ(out.data, expected_out);
  EXPECT_EQ(lse.data, expected_lse);
}

TEST_F(CAbiTest, BackwardIsTheSame) {
  cpp_forward();
  backward({dout.cpp, q.cpp, k.cpp, v.cpp, out.cpp, lse.cpp, dq.cpp, dk.cpp, dv.cpp, dlse.cpp, dbias.cpp, dsink.cpp},
           cpp);
  std::vector<std::vector<float>> expected;
  for (Array* a : {&dq, &dk, &dv, &dbias, &dsink}) expected.push_back(a->data), a->data.assign(a->data.size(), -9);
  ASSERT_EQ(splitq_backward(&g, &c, nullptr), SPLITQ_OK) << splitq_last_error();
  std::size_t n = 0;
  for (const Array* a : {&dq, &dk, &dv, &dbias, &dsink}) EXPECT_EQ(a->data, expected[n++]);
}

TEST_F(CAbiTest, NullOptionsAreTheDefaults) {
  cpp = {};
  cpp_forward();
  const auto expected = out.data;
  const splitq_options initial = SPLITQ_OPTIONS_INIT;
  for (const splitq_options* options : {static_cast<const splitq_options*>(nullptr), &initial}) {
    out.data.assign(out.data.size(), -9);
    ASSERT_EQ(splitq_forward(&t, options, nullptr), SPLITQ_OK) << splitq_last_error();
    EXPECT_EQ(out.data, expected);
  }
}

TEST_F(CAbiTest, PlansRunManyTimes) {
  cpp_forward();
  const auto expected = out.data;
  splitq_plan* plan = nullptr;
  ASSERT_EQ(splitq_plan_forward(&t, &c, nullptr, &plan), SPLITQ_OK) << splitq_last_error();
  EXPECT_NE(std::string(splitq_plan_describe(plan)).find("forward"), std::string::npos);
  EXPECT_EQ(std::string(splitq_plan_backend(plan)).rfind("cpu/", 0), 0u);
  for (int n = 0; n < 2; ++n) {
    Array other({kB, kSq, kHq, kD});
    t.out = &other.c;
    ASSERT_EQ(splitq_plan_run_forward(plan, &t, &c), SPLITQ_OK) << splitq_last_error();
    EXPECT_EQ(other.data, expected);
  }
  t.out = &out.c;
  c.causal = 0;
  EXPECT_EQ(splitq_plan_run_forward(plan, &t, &c), SPLITQ_INVALID_ARGUMENT);
  EXPECT_EQ(splitq_plan_run_backward(plan, &g, &c), SPLITQ_INVALID_ARGUMENT);
  splitq_plan_destroy(plan);

  ASSERT_EQ(splitq_plan_backward(&g, &c, nullptr, &plan), SPLITQ_OK) << splitq_last_error();
  EXPECT_EQ(splitq_plan_run_backward(plan, &g, &c), SPLITQ_OK) << splitq_last_error();
  splitq_plan_destroy(plan);

  k.c.rank = 3;
  EXPECT_EQ(splitq_plan_forward(&t, &c, nullptr, &plan), SPLITQ_INVALID_ARGUMENT);
  EXPECT_EQ(plan, nullptr);
  splitq_plan_destroy(nullptr);
  EXPECT_STREQ(splitq_plan_describe(nullptr), "");
}

TEST_F(CAbiTest, SupportComesWithReasons) {
  EXPECT_EQ(splitq_is_supported_forward(&t, &c, nullptr), SPLITQ_OK);
  EXPECT_EQ(splitq_is_supported_backward(&g, &c, nullptr), SPLITQ_OK);
  splitq_execution execution = SPLITQ_EXECUTION_INIT;
  execution.device_kind = SPLITQ_DEVICE_CUDA;
  EXPECT_NE(splitq_is_supported_forward(&t, &c, &execution), SPLITQ_OK);
  EXPECT_STRNE(splitq_last_error(), "");
  execution = SPLITQ_EXECUTION_INIT;
  execution.instruction_set = "abacus";
  EXPECT_NE(splitq_is_supported_forward(&t, &c, &execution), SPLITQ_OK);
  EXPECT_NE(std::string(splitq_last_error()).find("abacus"), std::string::npos) << splitq_last_error();
}

TEST_F(CAbiTest, RefusesWhatItCannotRead) {
  EXPECT_EQ(splitq_forward(nullptr, nullptr, nullptr), SPLITQ_INVALID_ARGUMENT);
  EXPECT_STREQ(splitq_last_error(), "tensors: NULL; must point to a struct");
  t.q = nullptr;
  EXPECT_EQ(splitq_forward(&t, nullptr, nullptr), SPLITQ_INVALID_ARGUMENT);
  EXPECT_STREQ(splitq_last_error(), "q: not given; must be given to forward");
  t.q = &q.c;
  q.c.rank = 0;
  EXPECT_EQ(splitq_forward(&t, nullptr, nullptr), SPLITQ_INVALID_ARGUMENT);
  EXPECT_STREQ(splitq_last_error(), "q: rank 0; must be from 1 to 4, or the pointer to the tensor NULL");
  q.c.rank = 4;
  c.causal = 2;
  EXPECT_EQ(splitq_forward(&t, &c, nullptr), SPLITQ_INVALID_ARGUMENT);
  EXPECT_STREQ(splitq_last_error(), "causal: 2; must be 0 or 1");
  splitq_execution execution = SPLITQ_EXECUTION_INIT;
  execution.rescale = -1;
  EXPECT_EQ(splitq_forward(&t, nullptr, &execution), SPLITQ_INVALID_ARGUMENT);
  EXPECT_STREQ(splitq_last_error(), "rescale: -1; must be from 0 to 1");
  EXPECT_EQ(splitq_plan_forward(&t, nullptr, nullptr, nullptr), SPLITQ_INVALID_ARGUMENT);
  EXPECT_EQ(splitq_plan_run_forward(nullptr, &t, nullptr), SPLITQ_INVALID_ARGUMENT);
}

TEST_F(CAbiTest, StructsAreVersioned) {
  struct Newer {  // as a later header may have it
    splitq_options known;
    std::int64_t later;
  } newer = {SPLITQ_OPTIONS_INIT, 0};
  newer.known.struct_size = sizeof newer;
  EXPECT_EQ(splitq_forward(&t, &newer.known, nullptr), SPLITQ_OK) << splitq_last_error();
  newer.later = 1;
  EXPECT_EQ(splitq_forward(&t, &newer.known, nullptr), SPLITQ_INVALID_ARGUMENT);
  const std::string expected = "options: byte " + std::to_string(sizeof(splitq_options)) + " set; must be 0";
  EXPECT_EQ(std::string(splitq_last_error()).rfind(expected, 0), 0u) << splitq_last_error();

  c.struct_size = 0;
  EXPECT_EQ(splitq_forward(&t, &c, nullptr), SPLITQ_INVALID_ARGUMENT);
  const std::string unset = "options.struct_size: 0; must be at least " + std::to_string(sizeof(splitq_options)) +
                            ": start from the struct's _INIT";
  EXPECT_EQ(splitq_last_error(), unset);
  q.c.struct_size = sizeof(splitq_tensor) - 1;
  EXPECT_EQ(splitq_forward(&t, nullptr, nullptr), SPLITQ_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(splitq_last_error()).rfind("q.struct_size: ", 0), 0u) << splitq_last_error();
}

TEST_F(CAbiTest, AnExecutionFromBeforeItHadAStream) {
  splitq_execution older = SPLITQ_EXECUTION_INIT;
  int behind = 0;  // what lies behind an older caller's struct is not read
  older.struct_size = offsetof(splitq_execution, stream), older.stream = &behind;
  EXPECT_EQ(splitq_forward(&t, nullptr, &older), SPLITQ_OK) << splitq_last_error();
  older.struct_size = sizeof older;
  EXPECT_EQ(splitq_forward(&t, nullptr, &older), SPLITQ_INVALID_ARGUMENT);
  EXPECT_STREQ(splitq_last_error(), "stream: given on cpu; may be given on cuda alone");
  older.struct_size = offsetof(splitq_execution, stream) - 1;
  EXPECT_EQ(splitq_forward(&t, nullptr, &older), SPLITQ_INVALID_ARGUMENT);
}

TEST_F(CAbiTest, RotaryAndAppend) {
  Array cos({16, 3}, 1), sin({16, 3}, 2), rotated({kB, kSk, kHkv, kD}), expected({kB, kSk, kHkv, kD});
  apply_rotary(k.cpp, expected.cpp, {cos.cpp, sin.cpp, true});
  splitq_rotary rotary = SPLITQ_ROTARY_INIT;
  rotary.cos = &cos.c, rotary.sin = &sin.c, rotary.interleaved = 1;
  ASSERT_EQ(splitq_apply_rotary(&k.c, &rotated.c, &rotary, nullptr), SPLITQ_OK) << splitq_last_error();
  EXPECT_EQ(rotated.data, expected.data);
  EXPECT_EQ(splitq_apply_rotary(&k.c, &rotated.c, nullptr, nullptr), SPLITQ_INVALID_ARGUMENT);

  Array k_cache({kB, 9, kHkv, kD}, 3), v_cache({kB, 9, kHkv, kD}, 4);
  const std::vector<std::int32_t> lengths(kB, 0);
  const std::int64_t batch = kB;
  const splitq_tensor seqlens = splitq_tensor_contiguous(lengths.data(), SPLITQ_INT32, 1, &batch);
  splitq_append_tensors a = SPLITQ_APPEND_TENSORS_INIT;
  a.k_new = &k.c, a.v_new = &v.c, a.k_cache = &k_cache.c, a.v_cache = &v_cache.c, a.seqlens_k = &seqlens,
  a.rotary = &rotary;
  ASSERT_EQ(splitq_append_kv(&a), SPLITQ_OK) << splitq_last_error();
  const std::size_t row = kSk * kHkv * kD, cache_row = 9 * kHkv * kD;
  for (std::size_t b = 0; b < kB; ++b) {
    EXPECT_EQ(std::memcmp(&k_cache.data[b * cache_row], &expected.data[b * row], row * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(&v_cache.data[b * cache_row], &v.data[b * row], row * sizeof(float)), 0);
  }
  a.seqlens_k = nullptr;
  EXPECT_EQ(splitq_append_kv(&a), SPLITQ_INVALID_ARGUMENT);
  EXPECT_STREQ(splitq_last_error(), "seqlens_k: not given; must be given");
}

TEST_F(CAbiTest, BackendsAreListed) {
  const std::size_t count = splitq_backend_count();
  ASSERT_EQ(count, backends().size());
  int chosen = 0;
  for (std::size_t n = 0; n < count; ++n) {
    splitq_backend_info info = SPLITQ_BACKEND_INFO_INIT;
    ASSERT_EQ(splitq_backend_at(n, &info), SPLITQ_OK) << splitq_last_error();
    EXPECT_EQ(info.name, backends()[n].name);
    chosen += info.chosen;
  }
  EXPECT_EQ(chosen, 1);
  splitq_backend_info info = SPLITQ_BACKEND_INFO_INIT;
  EXPECT_EQ(splitq_backend_at(count, &info), SPLITQ_INVALID_ARGUMENT);
  EXPECT_STREQ(splitq_version(), version());
}

TEST(ThreadsCAbiTest, EachThreadHasItsOwnError) {
  EXPECT_EQ(splitq_forward(nullptr, nullptr, nullptr), SPLITQ_INVALID_ARGUMENT);
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back([] {
      EXPECT_STREQ(splitq_last_error(), "");
      for (int i = 0; i < 200; ++i) {
        EXPECT_EQ(splitq_backward(nullptr, nullptr, nullptr), SPLITQ_INVALID_ARGUMENT);
        EXPECT_STREQ(splitq_last_error(), "tensors: NULL; must point to a struct");
        EXPECT_EQ(splitq_append_kv(nullptr), SPLITQ_INVALID_ARGUMENT);
        EXPECT_GT(splitq_backend_count(), 0u);
        EXPECT_STREQ(splitq_last_error(), "");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_STREQ(splitq_last_error(), "tensors: NULL; must point to a struct");
}

}  // namespace
}  // namespace splitq::testing
