// splitq: exact attention, forward and backward. The C++ interface.
//
//   #include <splitq/splitq.hpp>
//   splitq::forward(q, k, v, out, {.causal = true});
//
// Shapes (docs/semantics.md has the full definition):
//   q, out          (B, Sq, Hq, D) and (B, Sq, Hq, Dv)     packed: (total_q, Hq, D|Dv)
//   k, v            (B, Sk, Hkv, D) and (B, Sk, Hkv, Dv)   packed: (total_k, Hkv, D|Dv)
//                                                          paged:  (pages, page_size, Hkv, D|Dv)
//   softmax_lse     (B, Hq, Sq) fp32                       packed: (Hq, total_q)
// Strides are counted in elements and may be anything; tensors may be views of one another's memory as
// long as nothing written overlaps anything else. Every function is thread-safe and throws splitq::Error.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace splitq {

enum class DType : std::int32_t { kFp32 = 0, kFp16 = 1, kBf16 = 2, kInt32 = 3, kInt64 = 4, kBool = 5 };

/// Bytes of one element.
std::size_t size_of(DType dtype);

enum class DeviceKind : std::int32_t { kAuto = 0, kCpu = 1, kCuda = 2, kEmulator = 3 };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

inline constexpr int kMaxRank = 4;

/// A tensor that somebody else owns. `data == nullptr && rank == 0` means "not given".
/// Inputs are never written through `data`.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kFp32;
  int rank = 0;
  std::array<std::int64_t, kMaxRank> shape{};
  std::array<std::int64_t, kMaxRank> strides{};  // in elements
  Device device{};

  bool given() const { return rank != 0; }
  std::int64_t size() const;  // number of elements
};

/// A contiguous (row-major) view, or one with the strides given.
TensorView view(const void* data, DType dtype, std::initializer_list<std::int64_t> shape,
                std::initializer_list<std::int64_t> strides = {});

/// What is computed. Every default means "off".
struct Options {
  std::optional<double> scale{};  // default 1/sqrt(D)
  bool causal = false;            // aligned bottom-right: key j is visible to query i if j <= i + Sk - Sq
  std::int64_t window_left = -1;  // -1: unlimited
  std::int64_t window_right = -1;
  double softcap = 0.0;    // x <- c tanh(x / c)
  double dropout = 0.0;    // probability that an attention weight is dropped, in [0, 1)
  std::uint64_t seed = 0;  // of dropout; forward and backward must be given the same
  std::uint64_t offset = 0;
  bool deterministic = false;  // backward bit-identical over runs (the CPU always is)

  TensorView bias{};          // (B|1, Hq|1, Sq|1, Sk), fp32 or the tensors' type
  TensorView mask{};          // (B|1, Hq|1, Sq|1, Sk), bool, true = visible
  TensorView alibi_slopes{};  // (Hq) or (B, Hq), fp32
  TensorView sink{};          // (Hq), fp32: a logit that takes part in the denominator alone

  // Packed sequences: (B+1), int32 or int64, from 0, monotone. Both or neither (paged KV: q's alone).
  TensorView cu_seqlens_q{};
  TensorView cu_seqlens_k{};
  // Used lengths: (B), int32 or int64. What lies past a length is never read into a result.
  TensorView seqlens_q{};
  TensorView seqlens_k{};    // paged KV: required
  TensorView block_table{};  // (B, max_pages), int32 or int64: k and v are pages. Forward alone.
};

struct ForwardTensors {
  TensorView q, k, v, out;
  TensorView softmax_lse{};  // optional
};

struct BackwardTensors {
  TensorView dout, q, k, v, out, softmax_lse;
  TensorView dq, dk, dv;  // written
  TensorView dlse{};      // optional: gradient that arrives at softmax_lse, of its shape
  TensorView dbias{};     // optional, written: of bias's shape, summed over broadcast dimensions
  TensorView dsink{};     // optional, written: (Hq), fp32
};

/// How the work is divided. FlashAttention-2 is the default; the others exist to be measured.
struct Schedule {
  enum class Rescale : std::int32_t { kAtEnd, kEveryStep };       // when O is divided by the row sum
  enum class Parallel : std::int32_t { kSequence, kBatchHeads };  // what runs in parallel
  Rescale rescale = Rescale::kAtEnd;
  Parallel parallel = Parallel::kSequence;
  bool operator==(const Schedule&) const = default;
};

/// Where and how it runs. The defaults choose for you. kAuto: where the tensors lie, on the CPU or the CUDA device that has
/// them. kEmulator: the GPU's kernels, slowly and watched, on tensors in CPU memory (docs/emulator.md).
struct Execution {
  Device device{DeviceKind::kAuto, 0};
  int threads = 0;                // CPU: 0 = all that the process may use
  std::string instruction_set{};  // CPU: "" = best, or a name that doctor lists
  Schedule schedule{};
  std::int64_t num_splits = 0;  // of the keys, forward, CPU: 0 = chosen
  // CUDA: the CUstream or cudaStream_t that the launch goes to; null: the default stream. The launch is all that a call does
  // there: it can be captured in a graph, if its kernel was loaded before (by plan(), or by a call).
  void* stream = nullptr;
  bool operator==(const Execution&) const = default;
};

enum class StatusCode : std::int32_t {
  kOk = 0,
  kInvalidArgument = 1,
  kUnsupported = 2,
  kOutOfMemory = 3,
  kInternal = 4
};

/// What is thrown. The message names the argument, what it was, and what it may be.
class Error : public std::runtime_error {
 public:
  Error(StatusCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  StatusCode code() const { return code_; }

 private:
  StatusCode code_;
};

struct Support {
  StatusCode code = StatusCode::kOk;
  std::string reason;  // empty where supported
  explicit operator bool() const { return code == StatusCode::kOk; }
};

// ---- run once ----------------------------------------------------------------------------------------

void forward(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
             const Options& options = {}, const TensorView& softmax_lse = {}, const Execution& execution = {});

void backward(const BackwardTensors& tensors, const Options& options = {}, const Execution& execution = {});

/// The same question that forward() and backward() ask: would this be computed, and if not, why not?
/// Reads the small index tensors (cu_seqlens, lengths, block_table), no other data. On CUDA it reads none, and no function
/// does: what index tensors hold is trusted there, and must be right.
Support is_supported(const ForwardTensors& tensors, const Options& options = {}, const Execution& execution = {});
Support is_supported(const BackwardTensors& tensors, const Options& options = {}, const Execution& execution = {});

// ---- plan once, run many times -----------------------------------------------------------------------

namespace detail {
struct PlanState;
}

/// A checked problem and the decision how to compute it. Immutable, cheap to copy, usable from any thread.
class Plan {
 public:
  /// Same shapes, types, strides and options as planned; other pointers, and other values in the index
  /// tensors, are welcome.
  void run(const ForwardTensors& tensors, const Options& options = {}) const;
  void run(const BackwardTensors& tensors, const Options& options = {}) const;

  std::string describe() const;         // what explain prints
  std::size_t workspace_bytes() const;  // extra memory that a run takes, upper bound
  std::string backend() const;          // "cpu/avx3", "cuda:0/sm_90a", "emulator/sm_80"

 private:
  friend Plan plan(const ForwardTensors&, const Options&, const Execution&);
  friend Plan plan(const BackwardTensors&, const Options&, const Execution&);
  explicit Plan(std::shared_ptr<const detail::PlanState> state) : state_(std::move(state)) {}
  std::shared_ptr<const detail::PlanState> state_;
};

/// On CUDA it loads the kernel, which takes about a second where it was never compiled on this machine.
Plan plan(const ForwardTensors& tensors, const Options& options = {}, const Execution& execution = {});
Plan plan(const BackwardTensors& tensors, const Options& options = {}, const Execution& execution = {});

// ---- the KV cache ------------------------------------------------------------------------------------

/// Rotary embedding (Su et al., RoFormer, eq. 34). cos and sin: (positions, R/2), fp32 or x's type; the first R
/// elements of the head are rotated, the rest copied. Pairs are (x0,x1),(x2,x3),... where interleaved, else
/// (x_r, x_{r+R/2}).
struct Rotary {
  TensorView cos{}, sin{};
  bool interleaved = false;
};

/// out = x rotated. x, out: (B, S, H, D), may be the same memory. Token s of sequence b stands at position
/// offsets[b] + s (offsets: (B), int32 or int64; not given: 0).
void apply_rotary(const TensorView& x, const TensorView& out, const Rotary& rotary, const TensorView& offsets = {});

/// Writes k_new, v_new (B, S_new, Hkv, D|Dv) behind what the cache holds: token s of sequence b goes to position
/// seqlens_k[b] + s of the cache, which is (B, Sk, Hkv, D|Dv), or paged with a block_table. k_new is rotated on the way
/// where `rotary` is given. seqlens_k is not changed.
struct AppendTensors {
  TensorView k_new, v_new, k_cache, v_cache, seqlens_k;
  TensorView block_table{};
  Rotary rotary{};
};
void append_kv(const AppendTensors& tensors);

// ---- this machine ------------------------------------------------------------------------------------

struct BackendInfo {
  std::string name;  // "cpu/avx3", "cuda:0", "emulator"
  bool available = false;
  bool chosen = false;  // what kAuto takes for tensors that lie there
  std::string why;      // of chosen, or of not available
};
std::vector<BackendInfo> backends();

const char* version();

}  // namespace splitq
