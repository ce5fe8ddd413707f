// The API on any arguments: is_supported() answers, and what it supports runs, inside its tensors' memory.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "fuzz_tensors.hpp"
#include "splitq/splitq.hpp"

namespace {

using splitq::DType;
using splitq::TensorView;
using Shape = std::vector<std::int64_t>;

void require(bool holds) {
  if (!holds) std::abort();
}

/// One call: a valid one by intention, which the fuzzer then bends.
class Call {
 public:
  explicit Call(FuzzedDataProvider& bytes) : bytes_(bytes), tensor_(bytes) {
    const auto extent = [&](std::int64_t max) { return bytes.ConsumeIntegralInRange<std::int64_t>(0, max); };
    batch_ = extent(3);
    heads_kv_ = 1 + extent(2);
    heads_q_ = heads_kv_ * (1 + extent(2));
    dim_ = 1 + extent(40);
    dim_v_ = flag() ? dim_ : 1 + extent(40);
    packed_q_ = flag();
    paged_ = extent(4) == 0;
    packed_k_ = packed_q_ && !paged_;
    page_size_ = 1 + extent(6);
    for (std::int64_t b = 0; b < batch_; ++b) {
      lengths_q_.push_back(packed_q_ || b == 0 ? extent(20) : lengths_q_[0]);
      lengths_k_.push_back(packed_k_ || b == 0 ? extent(70) : lengths_k_[0]);
    }
    dtype_ = static_cast<DType>(extent(2));
    describe_tensors();
    describe_options();
    describe_execution();
  }

  void ask_and_run() {
    const splitq::ForwardTensors f{t_.q, t_.k, t_.v, t_.out, t_.softmax_lse};
    const auto run = [&](const auto& tensors, auto&& compute) {
      const splitq::Support support = splitq::is_supported(tensors, options_, execution_);
      require(support ? support.reason.empty() : !support.reason.empty());
      if (support && !(tensor_.all_in_memory() && small())) return;
      if (execution_.device.kind == splitq::DeviceKind::kEmulator) return;  // compiles its kernels: seconds
      bool ran = false;
      try {
        compute();
        ran = true;
      } catch (const splitq::Error& error) {
        require(error.code() == support.code && *error.what() != '\0');
      }
      require(ran == static_cast<bool>(support));
    };
    run(f, [&] { splitq::forward(f.q, f.k, f.v, f.out, options_, f.softmax_lse, execution_); });
    if (flag()) run(t_, [&] { splitq::backward(t_, options_, execution_); });
  }

 private:
  bool flag() { return bytes_.ConsumeBool(); }

  static std::int64_t sum(const Shape& lengths) {
    std::int64_t total = 0;
    for (const std::int64_t n : lengths) total += n;
    return total;
  }
  static std::int64_t longest(const Shape& lengths) {
    std::int64_t most = 0;
    for (const std::int64_t n : lengths) most = std::max(most, n);
    return most;
  }

  TensorView rows(bool packed, const Shape& lengths, std::int64_t heads, std::int64_t dim) {
    return packed ? tensor_(dtype_, {sum(lengths), heads, dim})
                  : tensor_(dtype_, {batch_, longest(lengths), heads, dim});
  }
  TensorView q_rows(std::int64_t dim) { return rows(packed_q_, lengths_q_, heads_q_, dim); }
  TensorView k_rows(std::int64_t dim) {
    if (paged_) return tensor_(dtype_, {batch_ * pages(), page_size_, heads_kv_, dim});
    return rows(packed_k_, lengths_k_, heads_kv_, dim);
  }
  TensorView lse_rows() {
    if (packed_q_) return tensor_(DType::kFp32, {heads_q_, sum(lengths_q_)});
    return tensor_(DType::kFp32, {batch_, heads_q_, longest(lengths_q_)});
  }
  std::int64_t pages() const { return (longest(lengths_k_) + page_size_ - 1) / page_size_; }  // of one sequence

  void describe_tensors() {
    t_.q = q_rows(dim_), t_.k = k_rows(dim_), t_.v = k_rows(dim_v_), t_.out = q_rows(dim_v_);
    t_.softmax_lse = lse_rows();
    t_.dout = q_rows(dim_v_), t_.dq = q_rows(dim_), t_.dk = k_rows(dim_), t_.dv = k_rows(dim_v_);
    if (flag()) t_.dlse = lse_rows();
  }

  void describe_options() {
    splitq::Options& o = options_;
    o.causal = flag();
    if (flag()) o.window_left = any_integer();
    if (flag()) o.window_right = any_integer();
    if (flag()) o.scale = any_number();
    if (flag()) o.softcap = any_number();
    if (flag()) o.dropout = any_number();
    o.seed = bytes_.ConsumeIntegral<std::uint64_t>();
    o.deterministic = flag();

    const auto or_one = [&](std::int64_t n) { return flag() ? n : 1; };
    const auto over_logits = [&](DType dtype) {
      const Shape shape{or_one(batch_), or_one(heads_q_), or_one(longest(lengths_q_)),
                        paged_ ? pages() * page_size_ : longest(lengths_k_)};
      return tensor_(dtype, shape);
    };
    if (flag()) o.bias = over_logits(flag() ? DType::kFp32 : dtype_);
    if (flag()) o.mask = over_logits(DType::kBool);
    if (o.bias.given() && o.bias.rank == 4 && flag()) {
      t_.dbias = tensor_(o.bias.dtype, Shape(o.bias.shape.begin(), o.bias.shape.end()));
    }
    if (flag()) o.alibi_slopes = tensor_(DType::kFp32, flag() ? Shape{heads_q_} : Shape{batch_, heads_q_});
    if (flag()) o.sink = tensor_(DType::kFp32, {heads_q_});
    if (o.sink.given() && flag()) t_.dsink = tensor_(DType::kFp32, {heads_q_});

    if (packed_q_) o.cu_seqlens_q = tensor_.index({batch_ + 1}, cumulative(lengths_q_));
    if (packed_k_) o.cu_seqlens_k = tensor_.index({batch_ + 1}, cumulative(lengths_k_));
    if (flag()) o.seqlens_q = tensor_.index({batch_}, lengths_q_);
    if (paged_ || flag()) o.seqlens_k = tensor_.index({batch_}, lengths_k_);
    if (paged_) {
      Shape table;
      for (std::int64_t page = 0; page < batch_ * pages(); ++page) table.push_back(batch_ * pages() - 1 - page);
      o.block_table = tensor_.index({batch_, pages()}, table);
    }
  }

  void describe_execution() {
    splitq::Execution& e = execution_;
    e.threads = bytes_.ConsumeIntegralInRange<int>(0, 3);
    e.num_splits = flag() ? 0 : bytes_.ConsumeIntegralInRange<int>(0, 5);
    if (flag()) e.schedule.rescale = splitq::Schedule::Rescale::kEveryStep;
    if (flag()) e.schedule.parallel = splitq::Schedule::Parallel::kBatchHeads;
    static const std::vector<splitq::BackendInfo> kBackends = splitq::backends();
    const auto choice = bytes_.ConsumeIntegralInRange<std::size_t>(0, 3 * kBackends.size());
    // "cpu/avx3" names the instruction set avx3.
    if (choice < kBackends.size())
      e.instruction_set = kBackends[choice].name.substr(kBackends[choice].name.find('/') + 1);
    if (bytes_.ConsumeIntegralInRange<int>(0, 60) == 60) {
      e.device.kind = static_cast<splitq::DeviceKind>(bytes_.ConsumeIntegralInRange<int>(-1, 5));
      e.threads = bytes_.ConsumeIntegralInRange<int>(-1, 3);
      e.num_splits = any_integer();
      e.instruction_set = bytes_.ConsumeRandomLengthString(8);
    }
  }

  static Shape cumulative(const Shape& lengths) {
    Shape out{0};
    for (const std::int64_t n : lengths) out.push_back(out.back() + n);
    return out;
  }

  std::int64_t any_integer() {
    switch (bytes_.ConsumeIntegralInRange<int>(0, 12)) {
      case 0:
        return -1;
      case 1:
        return std::numeric_limits<std::int64_t>::max();
      case 2:
        return bytes_.ConsumeIntegral<std::int64_t>();
      default:
        return bytes_.ConsumeIntegralInRange<std::int64_t>(0, 70);
    }
  }
  double any_number() {
    switch (bytes_.ConsumeIntegralInRange<int>(0, 12)) {
      case 0:
        return std::numeric_limits<double>::quiet_NaN();
      case 1:
        return bytes_.ConsumeFloatingPoint<double>();
      case 2:
        return 1.0;
      default:
        return bytes_.ConsumeProbability<double>();
    }
  }

  /// Whether it is computed in an instant, whatever the fuzzer made of the extents.
  bool small() const {
    std::int64_t work = 1;
    for (const TensorView* view : {&t_.q, &t_.k}) {
      for (int d = 0; d < view->rank && d < splitq::kMaxRank; ++d) {
        if (__builtin_mul_overflow(work, std::max<std::int64_t>(view->shape[d], 1), &work)) return false;
      }
    }
    return work <= std::int64_t{1} << 28;
  }

  FuzzedDataProvider& bytes_;
  splitq::fuzz::TensorSource tensor_;
  std::int64_t batch_ = 0, heads_q_ = 0, heads_kv_ = 0, dim_ = 0, dim_v_ = 0, page_size_ = 0;
  bool packed_q_ = false, packed_k_ = false, paged_ = false;
  Shape lengths_q_, lengths_k_;
  DType dtype_ = DType::kFp32;
  splitq::BackwardTensors t_;
  splitq::Options options_;
  splitq::Execution execution_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider bytes(data, size);
  Call(bytes).ask_and_run();
  return 0;
}
