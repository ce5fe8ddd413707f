// Every wrong argument gets the message that names it, says what it was and what it may be.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <ostream>

#include "problem/call.hpp"

namespace splitq::testing {
namespace {

constexpr Direction kForward = Direction::kForward, kBackward = Direction::kBackward;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
constexpr std::int64_t kHuge = std::int64_t{1} << 62;

struct Refusal {
  const char* name;
  Direction direction;
  std::function<void(Call&)> spoil;
  const char* message;
  StatusCode code = StatusCode::kInvalidArgument;
};
void PrintTo(const Refusal& r, std::ostream* os) { *os << r.name; }

class RefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusalTest, NamesTheArgument) {
  const Refusal& r = GetParam();
  Call call(r.direction);
  Problem problem;
  ASSERT_TRUE(call.check(&problem).ok());
  const Problem before = problem;
  r.spoil(call);
  const Status status = call.check(&problem);
  EXPECT_EQ(status.code, r.code);
  EXPECT_EQ(status.message, r.message);
  EXPECT_EQ(problem, before) << "a refused call leaves the description alone";
}

const Refusal kMissing[] = {
    {"Q", kForward, [](Call& c) { c.q = {}; }, "q: not given; must be given to forward"},
    {"Out", kForward, [](Call& c) { c.out = {}; }, "out: not given; must be given to forward"},
    {"Lse", kBackward, [](Call& c) { c.softmax_lse = {}; }, "softmax_lse: not given; must be given to backward"},
    {"Dk", kBackward, [](Call& c) { c.dk = {}; }, "dk: not given; must be given to backward"},
    {"NullData", kForward, [](Call& c) { c.k.data = nullptr; },
     "k: no data (null) for shape (2, 7, 2, 8); must point to its first element"},
    {"RankZero", kForward, [](Call& c) { c.v.rank = 0; },
     "v: rank 0 with data; must have a rank from 1 to 4, or no data where it is not given"},
};
INSTANTIATE_TEST_SUITE_P(Missing, RefusalTest, ::testing::ValuesIn(kMissing),
                         [](const auto& info) { return info.param.name; });

const Refusal kShapes[] = {
    {"QRank", kForward,
     [](Call& c) {
       c.q = c.make(DType::kFp32, {kSq, kHq, kD});
     },
     "q: rank 3, shape (5, 4, 8); must be (B, Sq, Hq, D)"},
    {"RankFive", kForward, [](Call& c) { c.q.rank = 5; }, "q: rank 5; must be from 1 to 4"},
    {"RankNegative", kForward, [](Call& c) { c.q.rank = -1; }, "q: rank -1; must be from 1 to 4"},
    {"KBatch", kForward, [](Call& c) { c.k.shape[0] = 1; },
     "k: shape (1, 7, 2, 8); must be (B, Sk, Hkv, D) with B = 2 as in q, D = 8 as in q"},
    {"KHeadDim", kForward, [](Call& c) { c.k.shape[3] = 7; },
     "k: shape (2, 7, 2, 7); must be (B, Sk, Hkv, D) with B = 2 as in q, D = 8 as in q"},
    {"VLength", kForward, [](Call& c) { c.v.shape[1] = 6; },
     "v: shape (2, 6, 2, 6); must be (B, Sk, Hkv, Dv) with B = 2 as in q, Sk = 7 as in k, Hkv = 2 as in k"},
    {"OutHeadDim", kForward,
     [](Call& c) {
       c.out = c.make(DType::kFp32, {kB, kSq, kHq, kD});
     },
     "out: shape (2, 5, 4, 8); must be (B, Sq, Hq, Dv) with B = 2 as in q, Sq = 5 as in q, Hq = 4 as in q, Dv = 6 as "
     "in v"},
    {"Lse", kForward,
     [](Call& c) {
       c.softmax_lse = c.make(DType::kFp32, {kB, kSq, kHq});
     },
     "softmax_lse: shape (2, 5, 4); must be (B, Hq, Sq) with B = 2 as in q, Hq = 4 as in q, Sq = 5 as in q"},
    {"Dv", kBackward, [](Call& c) { c.dv.shape[2] = 1; },
     "dv: shape (2, 7, 1, 6); must be (B, Sk, Hkv, Dv) with B = 2 as in q, Sk = 7 as in k, Hkv = 2 as in k, Dv = 6 as "
     "in v"},
    {"Heads", kForward,
     [](Call& c) {
       c.k = c.make(DType::kFp32, {kB, kSk, 3, kD});
       c.v = c.make(DType::kFp32, {kB, kSk, 3, kDv});
     },
     "q: 4 heads; must be a multiple of the 3 heads of k"},
    {"NoHeads", kForward,
     [](Call& c) {
       c.k = c.make(DType::kFp32, {kB, kSk, 0, kD});
       c.v = c.make(DType::kFp32, {kB, kSk, 0, kDv});
     },
     "heads_kv: 0; must be at least 1"},
    {"NoHeadDim", kForward,
     [](Call& c) {
       c.q = c.make(DType::kFp32, {kB, kSq, kHq, 0});
       c.k = c.make(DType::kFp32, {kB, kSk, kHkv, 0});
     },
     "head_dim: 0; must be at least 1"},
    {"NegativeSize", kForward, [](Call& c) { c.q.shape[1] = -5; },
     "q: shape (2, -5, 4, 8); must have no negative size"},
    {"ProductOverflows", kForward,
     [](Call& c) {
       c.q.shape = {kHuge, kHuge, 4, 8};
     },
     "q: shape (4611686018427387904, 4611686018427387904, 4, 8) of fp32; must have fewer than 2^63 bytes"},
    {"EmptyProductOverflows", kForward,
     [](Call& c) {
       c.q.shape = {0, kHuge, 4, 8};
     },
     "q: shape (0, 4611686018427387904, 4, 8) of fp32; must have fewer than 2^63 bytes"},
    {"ExtentOverflows", kForward, [](Call& c) { c.q.strides[1] = kHuge; },
     "q: shape (2, 5, 4, 8), strides (160, 4611686018427387904, 8, 1) of fp32; must span fewer than 2^63 bytes"},
    {"BiasColumns", kForward,
     [](Call& c) {
       c.options.bias = c.make(DType::kFp32, {1, 1, kSq, 1});
     },
     "bias: shape (1, 1, 5, 1); must be (B|1, Hq|1, Sq|1, Sk) with B = 2 as in q, Hq = 4 as in q, Sq = 5 as in q, Sk = "
     "7 as in k"},
    {"MaskHeads", kForward,
     [](Call& c) {
       c.options.mask = c.make(DType::kBool, {1, kHkv, 1, kSk});
     },
     "mask: shape (1, 2, 1, 7); must be (B|1, Hq|1, Sq|1, Sk) with B = 2 as in q, Hq = 4 as in q, Sq = 5 as in q, Sk = "
     "7 as in k"},
    {"Dbias", kBackward,
     [](Call& c) {
       c.options.bias = c.make(DType::kFp32, {1, kHq, kSq, kSk});
       c.dbias = c.make(DType::kFp32, {kB, kHq, kSq, kSk});
     },
     "dbias: shape (2, 4, 5, 7); must be (1, 4, 5, 7), the shape of bias"},
    {"Alibi", kForward,
     [](Call& c) {
       c.options.alibi_slopes = c.make(DType::kFp32, {1, kB, kHq});
     },
     "alibi_slopes: rank 3, shape (1, 2, 4); must be (Hq) or (B, Hq) with Hq = 4 as in q"},
    {"Sink", kForward, [](Call& c) { c.options.sink = c.make(DType::kFp32, {kHkv}); },
     "sink: shape (2); must be (Hq) with Hq = 4 as in q"},
    {"SeqlensK", kForward, [](Call& c) { c.options.seqlens_k = c.indices({1}); },
     "seqlens_k: shape (1); must be (B) with B = 2 as in q"},
    {"CuSeqlensEmpty", kForward,
     [](Call& c) {
       c.pack();
       c.options.cu_seqlens_q.shape[0] = 0;
     },
     "cu_seqlens_q: shape (0); must be (B+1)"},
    {"CuSeqlensDiffer", kForward,
     [](Call& c) {
       c.pack();
       c.options.cu_seqlens_k = c.indices({0, 3});
     },
     "cu_seqlens_k: shape (2); must be (B+1) with B = 2 as in cu_seqlens_q"},
    {"PackedLse", kForward,
     [](Call& c) {
       c.pack();
       c.softmax_lse = c.make(DType::kFp32, {kB, kHq, kSq});
     },
     "softmax_lse: rank 3, shape (2, 4, 5); must be (Hq, total_q) with Hq = 4 as in q, total_q = 5 as in q"},
    {"PageSize", kForward,
     [](Call& c) {
       c.page();
       c.k.shape[1] = c.v.shape[1] = 0;
     },
     "page_size: 0; must be at least 1"},
};
INSTANTIATE_TEST_SUITE_P(Shape, RefusalTest, ::testing::ValuesIn(kShapes),
                         [](const auto& info) { return info.param.name; });

const Refusal kTypes[] = {
    {"Q", kForward, [](Call& c) { c.q.dtype = DType::kInt32; }, "q: type int32; must be fp32 or fp16 or bf16"},
    {"K", kForward, [](Call& c) { c.k.dtype = DType::kFp16; }, "k: type fp16; must be fp32, the type of q"},
    {"Dq", kBackward, [](Call& c) { c.dq.dtype = DType::kBf16; }, "dq: type bf16; must be fp32, the type of q"},
    {"Lse", kForward, [](Call& c) { c.softmax_lse.dtype = DType::kFp16; }, "softmax_lse: type fp16; must be fp32"},
    {"Mask", kForward,
     [](Call& c) {
       c.options.mask = c.make(DType::kInt32, {1, 1, 1, kSk});
     },
     "mask: type int32; must be bool"},
    {"Bias", kForward,
     [](Call& c) {
       c.options.bias = c.make(DType::kBf16, {1, 1, 1, kSk});
     },
     "bias: type bf16; must be fp32"},
    {"Index", kForward, [](Call& c) { c.options.seqlens_k = c.make(DType::kFp32, {kB}); },
     "seqlens_k: type fp32; must be int32 or int64"},
    {"Unknown", kForward, [](Call& c) { c.q.dtype = static_cast<DType>(17); },
     "q: type number 17; must be one of fp32 (0), fp16 (1), bf16 (2), int32 (3), int64 (4), bool (5)"},
    {"Device", kForward,
     [](Call& c) {
       c.k.device = {DeviceKind::kCuda, 1};
     },
     "k: on cuda:1; must be on cpu, where q is"},
    {"UnknownDevice", kForward, [](Call& c) { c.k.device.kind = static_cast<DeviceKind>(9); },
     "k: device number 9; must be one of auto (0), cpu (1), cuda (2), emulator (3)"},
};
INSTANTIATE_TEST_SUITE_P(Type, RefusalTest, ::testing::ValuesIn(kTypes),
                         [](const auto& info) { return info.param.name; });

const Refusal kCombinations[] = {
    {"CuSeqlensQAlone", kForward,
     [](Call& c) {
       c.pack();
       c.options.cu_seqlens_k = {};
     },
     "cu_seqlens_q: given without cu_seqlens_k; must come with it or not at all"},
    {"CuSeqlensKAlone", kForward,
     [](Call& c) {
       c.pack();
       c.options.cu_seqlens_q = {};
     },
     "cu_seqlens_k: given without cu_seqlens_q; must come with it or not at all"},
    {"PagedAndPackedK", kForward,
     [](Call& c) {
       c.pack();
       c.page();
     },
     "block_table: given together with cu_seqlens_k; only one of them may be"},
    {"PagedWithoutLengths", kForward,
     [](Call& c) {
       c.page();
       c.options.seqlens_k = {};
     },
     "block_table: given without seqlens_k; must come with it or not at all"},
    {"PagedBackward", kBackward, [](Call& c) { c.page(); },
     "block_table: given to backward on any device; may be given to forward alone, on cpu, cuda, emulator",
     StatusCode::kUnsupported},
    {"DbiasAlone", kBackward,
     [](Call& c) {
       c.dbias = c.make(DType::kFp32, {1, 1, 1, kSk});
     },
     "dbias: given without bias; must come with it or not at all"},
    {"DsinkAlone", kBackward, [](Call& c) { c.dsink = c.make(DType::kFp32, {kHq}); },
     "dsink: given without sink; must come with it or not at all"},
};
INSTANTIATE_TEST_SUITE_P(Combination, RefusalTest, ::testing::ValuesIn(kCombinations),
                         [](const auto& info) { return info.param.name; });

const Refusal kNumbers[] = {
    {"ScaleNan", kForward, [](Call& c) { c.options.scale = kNaN; }, "scale: nan; must be finite in fp32"},
    {"ScaleInf", kForward, [](Call& c) { c.options.scale = kInf; }, "scale: inf; must be finite in fp32"},
    {"ScaleLarge", kForward, [](Call& c) { c.options.scale = 1e300; }, "scale: 1e+300; must be finite in fp32"},
    {"SoftcapNegative", kForward, [](Call& c) { c.options.softcap = -1; },
     "softcap: -1; must be 0 (off) or positive, finite and normal in fp32"},
    {"SoftcapNan", kForward, [](Call& c) { c.options.softcap = kNaN; },
     "softcap: nan; must be 0 (off) or positive, finite and normal in fp32"},
    {"SoftcapTiny", kForward, [](Call& c) { c.options.softcap = 1e-300; },
     "softcap: 1e-300; must be 0 (off) or positive, finite and normal in fp32"},
    {"DropoutOne", kForward, [](Call& c) { c.options.dropout = 1; }, "dropout: 1; must be in [0, 1)"},
    {"DropoutNegative", kForward, [](Call& c) { c.options.dropout = -0.5; }, "dropout: -0.5; must be in [0, 1)"},
    {"DropoutNan", kForward, [](Call& c) { c.options.dropout = kNaN; }, "dropout: nan; must be in [0, 1)"},
    {"WindowLeft", kForward, [](Call& c) { c.options.window_left = -2; },
     "window_left: -2; must be -1 (unlimited) or more"},
    {"WindowRight", kForward,
     [](Call& c) {
       c.options.window_right = -7;
       c.options.causal = true;
     },
     "window_right: -7; must be -1 (unlimited) or more"},
};
INSTANTIATE_TEST_SUITE_P(Number, RefusalTest, ::testing::ValuesIn(kNumbers),
                         [](const auto& info) { return info.param.name; });

const Refusal kWritten[] = {
    {"ZeroStride", kForward, [](Call& c) { c.out.strides[1] = 0; },
     "out: shape (2, 5, 4, 6), strides (120, 0, 6, 1) of fp32; must have strides under which no two elements overlap, "
     "as it "
     "is written"},
    {"SlidingWindow", kBackward, [](Call& c) { c.dk.strides[1] = c.dk.strides[2]; },
     "dk: shape (2, 7, 2, 8), strides (112, 8, 8, 1) of fp32; must have strides under which no two elements overlap, "
     "as it "
     "is written"},
    {"NegativeStrides", kForward,
     [](Call& c) {
       c.softmax_lse.data = static_cast<float*>(c.softmax_lse.data) + 39;
       c.softmax_lse.strides = {-20, -4, -1, 0};
     },
     "softmax_lse: shape (2, 4, 5), strides (-20, -4, -1) of fp32; must have strides under which no two elements "
     "overlap, as "
     "it is written"},
    {"SameMemory", kForward,
     [](Call& c) {
       c.v = c.make(DType::kFp32, {kB, kSk, kHkv, kD}), c.out = c.q;
     },
     "out: shares memory with q; must have memory of its own, as it is written"},
    {"OverlappingTail", kBackward, [](Call& c) { c.dq.data = static_cast<float*>(c.q.data) + kB * kSq * kHq * kD - 1; },
     "dq: shares memory with q; must have memory of its own, as it is written"},
    {"TwoWritten", kBackward, [](Call& c) { c.dv.data = c.dk.data; },
     "dk: shares memory with dv; must have memory of its own, as it is written"},
    {"Misaligned", kForward, [](Call& c) { c.q.data = reinterpret_cast<void*>(0x1002); },
     "q: address 0x1002; must be a multiple of 4, the size of fp32"},
    {"AddressSpace", kForward, [](Call& c) { c.q.data = reinterpret_cast<void*>(~std::uintptr_t{0} - 3); },
     "q: shape (2, 5, 4, 8), strides (160, 32, 8, 1) of fp32 at address 0xfffffffffffffffc; must lie inside the "
     "address space"},
};
INSTANTIATE_TEST_SUITE_P(Memory, RefusalTest, ::testing::ValuesIn(kWritten),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace splitq::testing
