#include "bench/case.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

#include "bench/row_kernels.hpp"

namespace splitq::bench {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr double kDecodeFootprint = 256e6;  // bytes of all caches together; several times an L3

/// xorshift64*: fast, and the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  std::uint64_t bits() {
    state_ ^= state_ >> 12, state_ ^= state_ << 25, state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1Du;
  }
  /// Mean 0, variance 1: the sum of four uniform 16-bit numbers.
  float normal() {
    const std::uint64_t x = bits();
    const auto sum = float((x & 0xFFFF) + (x >> 16 & 0xFFFF) + (x >> 32 & 0xFFFF) + (x >> 48));
    return (sum - 131070.0f) * (1.7320508f / 65536.0f);
  }

 private:
  std::uint64_t state_;
};

TensorView allocate(Tensors& tensors, DType dtype, std::initializer_list<std::int64_t> shape) {
  std::size_t count = 1;
  for (std::int64_t n : shape) count *= std::size_t(n);
  tensors.memory.emplace_back(count * size_of(dtype));
  std::memset(tensors.memory.back().data(), 0, tensors.memory.back().size());  // pages are there before timing
  return view(tensors.memory.back().data(), dtype, shape);
}

void fill(const TensorView& tensor, Random& random) {
  constexpr std::int64_t kChunk = 1024;
  float chunk[kChunk];
  for (std::int64_t i = 0; i < tensor.size(); i += kChunk) {
    const std::int64_t count = std::min(kChunk, tensor.size() - i);
    std::generate_n(chunk, count, [&] { return random.normal(); });
    from_float(chunk, static_cast<std::byte*>(tensor.data) + i * size_of(tensor.dtype), tensor.dtype, count);
  }
}

Tensors make_tensors(const Case& c, std::uint64_t seed) {
  Tensors t;
  const std::initializer_list<std::int64_t> q_shape = {c.batch, c.seqlen_q, c.heads_q, c.head_dim};
  const std::initializer_list<std::int64_t> k_shape = {c.batch, c.seqlen_k, c.heads_kv, c.head_dim};
  Random random(seed);
  fill(t.q = allocate(t, c.dtype, q_shape), random);
  fill(t.k = allocate(t, c.dtype, k_shape), random);
  fill(t.v = allocate(t, c.dtype, k_shape), random);
  t.out = allocate(t, c.dtype, q_shape);
  t.softmax_lse = allocate(t, DType::kFp32, {c.batch, c.heads_q, c.seqlen_q});
  if (!c.backward) return t;
  fill(t.dout = allocate(t, c.dtype, q_shape), random);
  t.dq = allocate(t, c.dtype, q_shape);
  t.dk = allocate(t, c.dtype, k_shape);
  t.dv = allocate(t, c.dtype, k_shape);
  return t;
}

}  // namespace

double Case::work() const {
  if (decode()) return 2.0 * double(batch * heads_kv * seqlen_k * head_dim) * double(size_of(dtype));
  const double forward = 4.0 * double(seqlen_q) * double(seqlen_k) * double(head_dim * heads_q * batch);
  return forward * (causal ? 0.5 : 1.0) * (backward ? 2.5 : 1.0);
}

const char* name_of(DType dtype) { return dtype == DType::kFp32 ? "fp32" : dtype == DType::kFp16 ? "fp16" : "bf16"; }

Buffer::Buffer(std::size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const std::size_t rounded = (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, rounded)));
  if (!data_) throw std::bad_alloc();
}

void Buffer::Free::operator()(std::byte* p) const { std::free(p); }

std::vector<TensorView> Tensors::results(bool backward) const {
  return backward ? std::vector{dq, dk, dv} : std::vector{out};
}

Workload make_workload(const Case& shape) {
  Workload workload{shape, {}};
  const int copies = shape.decode() ? std::max(1, int(std::ceil(kDecodeFootprint / shape.work()))) : 1;
  for (int i = 0; i < copies; ++i) workload.copies.push_back(make_tensors(shape, std::uint64_t(i) + 1));
  return workload;
}

Options options_of(const Case& shape) {
  Options options;
  options.causal = shape.causal;
  return options;
}

Results read_results(const Tensors& tensors, bool backward) {
  Results results;
  for (const TensorView& result : tensors.results(backward)) {
    results.emplace_back(std::size_t(result.size()));
    to_float(result.data, result.dtype, results.back().data(), result.size());
  }
  return results;
}

double relative_error(const Results& a, const Results& b) {
  double worst = 0;
  for (std::size_t r = 0; r < a.size(); ++r) {
    double difference = 0, largest = 0;
    for (std::size_t i = 0; i < a[r].size(); ++i) {
      const double d = std::abs(double(a[r][i]) - double(b[r][i]));
      if (std::isnan(d)) return d;
      difference = std::max(difference, d);
      largest = std::max(largest, std::abs(double(b[r][i])));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

void erase_results(const Tensors& tensors, bool backward) {
  for (const TensorView& result : tensors.results(backward))
    std::memset(result.data, 0xFF, std::size_t(result.size()) * size_of(result.dtype));
}

}  // namespace splitq::bench
