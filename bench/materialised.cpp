// Standard attention: S = Q K^T and P = softmax(S) stand in memory, OpenBLAS multiplies. Made as fast as it can be:
// a head per thread, rows in blocks so that the softmax finds its scores in cache, masked columns left out of the
// products, 1/l applied to O and not to P. Backward takes P as forward kept it, for all heads: four products in place of
// five. Its second form is given what splitq is given, out and softmax_lse, and makes P again.
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include <fmt/format.h>

#include "bench/contestant.hpp"
#include "bench/openblas.hpp"
#include "bench/row_kernels.hpp"

namespace splitq::bench {
namespace {

// Rows whose scores are made, used and left before the next: fastest of 64, 128, 256, 512 and all, measured at
// 512 and 4096 keys. Causal wants them fewer, since a block computes whole what the diagonal crosses.
constexpr std::int64_t kBlockRows = 512;
constexpr std::int64_t kCausalBlockRows = 128;
constexpr std::int64_t kSoftmaxRows = 16;  // of one task where the threads share a head
constexpr std::int64_t kPadding = 16;      // floats behind a row of S: no power-of-two stride

constexpr double kMemoryShare = 0.6;  // of what is free, that the matrices may take

/// Bytes that can be had without swapping.
double available_memory() {
  std::ifstream info("/proc/meminfo");
  for (std::string key; info >> key; info.ignore(256, '\n'))
    if (double kilobytes; key == "MemAvailable:" && info >> kilobytes) return 1024.0 * kilobytes;
  return std::numeric_limits<double>::infinity();
}

/// Rows of one head (or, for one query, the heads of one group) as floats.
struct Rows {
  float* data = nullptr;
  std::int64_t ld = 0;
  float* row(std::int64_t i) const { return data + i * ld; }
};

/// What one thread needs.
struct Workspace {
  Buffer scores;      // forward: S, then P; backward: dP, then dS
  Buffer row_values;  // 1/l, lse or delta: three a row
  Buffer converted;   // fp32 copies of a head's tensors where they are 16-bit
};

class Materialised final : public NativeContestant {
 public:
  Materialised(const Settings& settings, Kept kept)
      : threads_(settings.threads), keeps_p_(kept == Kept::kP), arena_(threads_) {}

  std::string name() const override { return keeps_p_ ? "materialised" : "materialised, P again"; }

  bool enters(const Case& c) const override { return keeps_p_ || c.backward; }

  std::string refusal(const Case& c) const override {
    if (std::string why = OpenBlas::missing(); !why.empty()) return why;
    if (c.backward && c.group() > 1) return "backward with grouped heads is not written";
    const double matrices = threads_ + (!c.backward ? 0.0 : double(keeps_p_ ? c.batch * c.heads_q : threads_));
    const double bytes = matrices * 4.0 * double(c.decode() ? c.group() : c.seqlen_q) * double(c.seqlen_k);
    if (const double free = available_memory(); bytes > kMemoryShare * free)
      return fmt::format("its matrices take {:.1f} GB, and {:.1f} GB are free", bytes * 1e-9, free * 1e-9);
    return {};
  }

  void finish() override {
    workspaces_.clear();
    p_ = Buffer();
  }

 private:
  // A unit is what one product handles: a query head, or with one query a whole group, whose heads are then its rows.
  std::int64_t units() const { return c_.decode() ? c_.batch * c_.heads_kv : c_.batch * c_.heads_q; }
  std::int64_t rows() const { return c_.decode() ? c_.group() : c_.seqlen_q; }
  std::int64_t visible(std::int64_t row) const { return c_.causal ? row + 1 + c_.seqlen_k - c_.seqlen_q : c_.seqlen_k; }
  std::int64_t block_rows() const { return c_.causal ? kCausalBlockRows : kBlockRows; }
  /// Columns that a block of rows reaches.
  std::int64_t reach(std::int64_t begin, std::int64_t count) const {
    return std::clamp<std::int64_t>(visible(begin + count - 1), 0, c_.seqlen_k);
  }

  void setup(Workload& workload) override {
    c_ = workload.shape;
    scale_ = 1.0f / std::sqrt(float(c_.head_dim));
    ld_ = (c_.seqlen_k + kPadding - 1) / kPadding * kPadding + kPadding;
    shared_head_ = units() < threads_;
    const std::int64_t matrix = rows() * ld_ * std::int64_t(sizeof(float));
    const std::int64_t head = std::max(rows(), c_.seqlen_k) * c_.head_dim * std::int64_t(sizeof(float));
    const std::int64_t conversions = c_.dtype == DType::kFp32 ? 0 : kSlots;
    workspaces_.clear();
    for (int i = 0; i < (shared_head_ ? 1 : threads_); ++i)
      workspaces_.push_back({Buffer(matrix), Buffer(3 * rows() * sizeof(float)), Buffer(conversions * head)});
    if (!c_.backward) return;
    p_ = Buffer((keeps_p_ ? units() : std::int64_t(workspaces_.size())) * matrix);
    for_units(workload.copies.front(),
              [this](const Tensors& t, std::int64_t unit, Workspace& w) { forward(t, unit, w); });
  }

  void call(Tensors& tensors) override {
    for_units(tensors, [this](const Tensors& t, std::int64_t unit, Workspace& w) {
      c_.backward ? backward(t, unit, w) : forward(t, unit, w);
    });
  }

  template <class F>
  void for_units(const Tensors& tensors, F&& f) {
    OpenBlas::get().set_threads(shared_head_ ? threads_ : 1);
    arena_.execute([&] {
      if (shared_head_) {
        for (std::int64_t unit = 0; unit < units(); ++unit) f(tensors, unit, workspaces_.front());
      } else {
        tbb::parallel_for(
            tbb::blocked_range<std::int64_t>(0, units(), 1),
            [&](const auto& range) {
              for (std::int64_t unit = range.begin(); unit < range.end(); ++unit)
                f(tensors, unit, workspaces_[tbb::this_task_arena::current_thread_index()]);
            },
            tbb::simple_partitioner());
      }
    });
  }

  template <class F>
  void for_blocks_of_rows(std::int64_t count, F&& f) {
    if (!shared_head_) return f(0, count);
    tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, count, kSoftmaxRows),
                      [&](const auto& range) { f(range.begin(), std::int64_t(range.size())); });
  }

  // ---- a head's rows in a tensor (B, S, H, D), converted where they are not fp32 ----

  enum Slot { kQ, kK, kV, kO, kDo, kDq, kDk, kDv, kSlots };

  struct Place {
    std::byte* data;
    std::int64_t stride, rows;  // stride in elements
  };
  Place place(const TensorView& tensor, std::int64_t unit, bool of_keys) const {
    const std::int64_t heads = tensor.shape[2], dim = c_.head_dim;
    const std::int64_t units_per_batch = units() / c_.batch;
    const std::int64_t batch = unit / units_per_batch, local = unit % units_per_batch;
    const bool group_as_rows = c_.decode() && !of_keys;
    const std::int64_t head = local * heads / units_per_batch;
    const std::int64_t offset = (batch * tensor.shape[1] * heads + head) * dim;
    return {static_cast<std::byte*>(tensor.data) + offset * std::int64_t(size_of(tensor.dtype)),
            group_as_rows ? dim : heads * dim, of_keys ? c_.seqlen_k : rows()};
  }
  float* slot(Workspace& w, Slot s) const {
    return w.converted.floats() + s * std::max(rows(), c_.seqlen_k) * c_.head_dim;
  }
  Rows target(const TensorView& tensor, std::int64_t unit, bool of_keys, Workspace& w, Slot s) const {
    if (c_.dtype != DType::kFp32) return {slot(w, s), c_.head_dim};
    const Place p = place(tensor, unit, of_keys);
    return {reinterpret_cast<float*>(p.data), p.stride};
  }
  Rows source(const TensorView& tensor, std::int64_t unit, bool of_keys, Workspace& w, Slot s) {
    const Rows rows = target(tensor, unit, of_keys, w, s);
    if (c_.dtype == DType::kFp32) return rows;
    const Place p = place(tensor, unit, of_keys);
    for_blocks_of_rows(p.rows, [&](std::int64_t begin, std::int64_t count) {
      for (std::int64_t i = begin; i < begin + count; ++i)
        to_float(p.data + i * p.stride * std::int64_t(size_of(c_.dtype)), c_.dtype, rows.row(i), c_.head_dim);
    });
    return rows;
  }
  void store(const Rows& rows, const TensorView& tensor, std::int64_t unit, bool of_keys) {
    if (c_.dtype == DType::kFp32) return;
    const Place p = place(tensor, unit, of_keys);
    for_blocks_of_rows(p.rows, [&](std::int64_t begin, std::int64_t count) {
      for (std::int64_t i = begin; i < begin + count; ++i)
        from_float(rows.row(i), p.data + i * p.stride * std::int64_t(size_of(c_.dtype)), c_.dtype, c_.head_dim);
    });
  }

  // ---- the two directions, one head ----

  /// Where P of a head stands between forward and backward, or while backward needs it.
  Rows p_of(std::int64_t unit, const Workspace& w) const {
    return {p_.floats() + (keeps_p_ ? unit : &w - workspaces_.data()) * rows() * ld_, ld_};
  }

  /// m rows of P from row i on: not yet divided by the row sums, or else normalised.
  void make_p(const Rows& q, const Rows& k, const Rows& p, std::int64_t i, std::int64_t m, std::int64_t n,
              float* inverse_sum, float* lse, bool normalised) {
    OpenBlas::get().sgemm(false, true, m, n, c_.head_dim, 1.0f, q.row(i), q.ld, k.data, k.ld, 0.0f, p.row(i), ld_);
    for_blocks_of_rows(m, [&](std::int64_t begin, std::int64_t count) {
      const std::int64_t r = i + begin;
      softmax_rows(p.row(r), count, n, ld_, c_.causal ? visible(r) : n, scale_, inverse_sum + r, lse + r);
      if (normalised) scale_rows(p.row(r), count, n, ld_, inverse_sum + r);
    });
  }

  void forward(const Tensors& t, std::int64_t unit, Workspace& w) {
    const OpenBlas& blas = OpenBlas::get();
    const std::int64_t d = c_.head_dim;
    const Rows q = source(t.q, unit, false, w, kQ), k = source(t.k, unit, true, w, kK);
    const Rows v = source(t.v, unit, true, w, kV), o = target(t.out, unit, false, w, kO);
    const Rows p = c_.backward ? p_of(unit, w) : Rows{w.scores.floats(), ld_};
    float* inverse_sum = w.row_values.floats();
    float* lse = static_cast<float*>(t.softmax_lse.data) + unit * rows();

    for (std::int64_t i = 0; i < rows(); i += block_rows()) {
      const std::int64_t m = std::min(block_rows(), rows() - i), n = reach(i, m);
      make_p(q, k, p, i, m, n, inverse_sum, lse, c_.backward);
      blas.sgemm(false, false, m, d, n, 1.0f, p.row(i), ld_, v.data, v.ld, 0.0f, o.row(i), o.ld);
      if (!c_.backward) scale_rows(o.row(i), m, d, o.ld, inverse_sum + i);
    }
    store(o, t.out, unit, false);
  }

  void backward(const Tensors& t, std::int64_t unit, Workspace& w) {
    const OpenBlas& blas = OpenBlas::get();
    const std::int64_t d = c_.head_dim;
    const Rows q = source(t.q, unit, false, w, kQ), k = source(t.k, unit, true, w, kK);
    const Rows v = source(t.v, unit, true, w, kV), o = source(t.out, unit, false, w, kO);
    const Rows d_o = source(t.dout, unit, false, w, kDo), dq = target(t.dq, unit, false, w, kDq);
    const Rows dk = target(t.dk, unit, true, w, kDk), dv = target(t.dv, unit, true, w, kDv);
    const Rows p = p_of(unit, w), ds{w.scores.floats(), ld_};
    float* delta = w.row_values.floats();
    float *inverse_sum = delta + rows(), *lse = inverse_sum + rows();

    // Last rows first: they reach every key, so that dk and dv need no clearing.
    float beta = 0.0f;
    for (std::int64_t i = (rows() - 1) / block_rows() * block_rows(); i >= 0; i -= block_rows(), beta = 1.0f) {
      const std::int64_t m = std::min(block_rows(), rows() - i), n = reach(i, m);
      if (!keeps_p_) make_p(q, k, p, i, m, n, inverse_sum, lse, true);
      for (std::int64_t r = i; r < i + m; ++r) delta[r] = dot(d_o.row(r), o.row(r), d);
      blas.sgemm(true, false, n, d, m, 1.0f, p.row(i), ld_, d_o.row(i), d_o.ld, beta, dv.data, dv.ld);
      blas.sgemm(false, true, m, n, d, 1.0f, d_o.row(i), d_o.ld, v.data, v.ld, 0.0f, ds.row(i), ld_);
      for_blocks_of_rows(m, [&](std::int64_t begin, std::int64_t count) {
        const std::int64_t r = i + begin;
        softmax_backward_rows(ds.row(r), p.row(r), count, n, ld_, delta + r, scale_);
      });
      blas.sgemm(false, false, m, d, n, 1.0f, ds.row(i), ld_, k.data, k.ld, 0.0f, dq.row(i), dq.ld);
      blas.sgemm(true, false, n, d, m, 1.0f, ds.row(i), ld_, q.row(i), q.ld, beta, dk.data, dk.ld);
    }
    store(dq, t.dq, unit, false), store(dk, t.dk, unit, true), store(dv, t.dv, unit, true);
  }

  int threads_;
  bool keeps_p_;
  tbb::task_arena arena_;
  Case c_;
  float scale_ = 0.0f;
  std::int64_t ld_ = 0;
  bool shared_head_ = false;  // fewer heads than threads: OpenBLAS divides each product instead
  std::vector<Workspace> workspaces_;
  Buffer p_;  // backward: P of every head, or of every thread
};

}  // namespace

std::unique_ptr<Contestant> make_materialised(const Settings& settings, Kept kept) {
  return std::make_unique<Materialised>(settings, kept);
}

}  // namespace splitq::bench
