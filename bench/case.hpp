// What is measured: one attention problem, and tensors filled for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "splitq/splitq.hpp"

namespace splitq::bench {

struct Case {
  DType dtype = DType::kFp32;
  std::int64_t batch = 1;
  std::int64_t heads_q = 8;
  std::int64_t heads_kv = 8;
  std::int64_t seqlen_q = 0;
  std::int64_t seqlen_k = 0;
  std::int64_t head_dim = 64;
  bool causal = false;
  bool backward = false;
  bool gpu = false;

  /// One query against a cache is bound by memory: its work is counted in bytes, all other in operations.
  bool decode() const { return seqlen_q == 1; }
  /// Bytes of K and V, or floating-point operations as the FlashAttention-2 paper counts them.
  double work() const;
  const char* unit() const { return decode() ? "GB/s" : gpu ? "TFLOP/s" : "GFLOP/s"; }
  double rate(double seconds) const { return (gpu && !decode() ? 1e-12 : 1e-9) * work() / seconds; }
  std::int64_t group() const { return heads_q / heads_kv; }
};

const char* name_of(DType dtype);

/// Memory that owns its bytes and starts at a cache line.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes = 0);
  std::byte* data() const { return data_.get(); }
  float* floats() const { return reinterpret_cast<float*>(data_.get()); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> data_;
};

/// The tensors of one call, contiguous (B, S, H, D). Gradients exist where the case is backward.
struct Tensors {
  TensorView q, k, v, out, softmax_lse;
  TensorView dout, dq, dk, dv;
  std::vector<Buffer> memory;

  /// What the timed direction writes: out, or dq, dk, dv.
  std::vector<TensorView> results(bool backward) const;
};

/// A case with its data: pseudo-random, roughly normal, the same in every process. Decoding takes turns over
/// several caches, as the layers of a model do, so that no cache of the processor holds them.
struct Workload {
  Case shape;
  std::vector<Tensors> copies;
};

Workload make_workload(const Case& shape);

Options options_of(const Case& shape);

/// The results as floats; and their erasure with NaN, so that a result that is not written is not mistaken for the
/// one before it.
using Results = std::vector<std::vector<float>>;
Results read_results(const Tensors& tensors, bool backward);

/// max|a - b| / max|b| of a result, the largest of all results. NaN where there is one.
double relative_error(const Results& a, const Results& b);
void erase_results(const Tensors& tensors, bool backward);

}  // namespace splitq::bench
