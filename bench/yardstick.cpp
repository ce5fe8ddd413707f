// What the machine can do: a large matrix product, and a read that streams from memory.
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <atomic>
#include <chrono>
#include <cstring>

#include "bench/contestant.hpp"
#include "bench/openblas.hpp"
#include "bench/row_kernels.hpp"

namespace splitq::bench {
namespace {

constexpr std::int64_t kGemmSize = 2048;
constexpr std::size_t kReadBytes = std::size_t(256) << 20;
constexpr std::size_t kReadChunk = std::size_t(1) << 20;

template <class F>
double seconds(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class GemmYardstick final : public Yardstick {
 public:
  explicit GemmYardstick(int threads) : threads_(threads) {
    for (Buffer* matrix : {&a_, &b_, &c_}) std::fill_n(matrix->floats(), kGemmSize * kGemmSize, 1.0f);
  }
  std::string name() const override { return "SGEMM"; }
  double rate() override {
    const OpenBlas& blas = OpenBlas::get();
    blas.set_threads(threads_);
    const double time = seconds([&] {
      blas.sgemm(false, false, kGemmSize, kGemmSize, kGemmSize, 1.0f, a_.floats(), kGemmSize, b_.floats(), kGemmSize,
                 0.0f, c_.floats(), kGemmSize);
    });
    return 2e-9 * double(kGemmSize) * double(kGemmSize) * double(kGemmSize) / time;
  }

 private:
  static constexpr std::size_t kBytes = kGemmSize * kGemmSize * sizeof(float);
  int threads_;
  Buffer a_{kBytes}, b_{kBytes}, c_{kBytes};
};

class ReadYardstick final : public Yardstick {
 public:
  explicit ReadYardstick(int threads) : arena_(threads) { std::memset(buffer_.data(), 1, kReadBytes); }
  std::string name() const override { return "read"; }
  double rate() override {
    const double time = seconds([&] {
      arena_.execute([&] {
        tbb::parallel_for(std::size_t(0), kReadBytes / kReadChunk, [&](std::size_t i) {
          sum_.fetch_xor(read_all(buffer_.data() + i * kReadChunk, kReadChunk), std::memory_order_relaxed);
        });
      });
    });
    return 1e-9 * double(kReadBytes) / time;
  }

 private:
  tbb::task_arena arena_;
  Buffer buffer_{kReadBytes};
  std::atomic<std::uint64_t> sum_{0};
};

}  // namespace

std::unique_ptr<Yardstick> make_gemm_yardstick(int threads) { return std::make_unique<GemmYardstick>(threads); }
std::unique_ptr<Yardstick> make_read_yardstick(int threads) { return std::make_unique<ReadYardstick>(threads); }

}  // namespace splitq::bench
