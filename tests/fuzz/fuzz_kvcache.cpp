// Appending to a cache and rotary embedding on any arguments: an error with a message, or a result inside the tensors' memory.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "fuzz_tensors.hpp"
#include "splitq/splitq.hpp"

namespace {

using splitq::DType;
using splitq::TensorView;
using Shape = std::vector<std::int64_t>;

/// A valid call by intention, which the tensor source bends.
class Call {
 public:
  explicit Call(FuzzedDataProvider& bytes) : bytes_(bytes), tensor_(bytes) {
    batch_ = extent(3), heads_ = 1 + extent(2), rows_ = extent(5);
    dim_ = 1 + extent(40), dim_v_ = 1 + extent(40), positions_ = 1 + extent(30);
    dtype_ = static_cast<DType>(extent(2));
  }

  void append() {
    splitq::AppendTensors t;
    t.k_new = tensor_(dtype_, {batch_, rows_, heads_, dim_});
    t.v_new = tensor_(dtype_, {batch_, rows_, heads_, dim_v_});
    const std::int64_t page = 1 + extent(6), pages = (positions_ + page - 1) / page;
    const bool paged = flag();
    const auto cache = [&](std::int64_t dim) {
      return tensor_(dtype_, paged ? Shape{batch_ * pages, page, heads_, dim} : Shape{batch_, positions_, heads_, dim});
    };
    t.k_cache = cache(dim_), t.v_cache = cache(dim_v_);
    Shape lengths, table;
    for (std::int64_t b = 0; b < batch_; ++b) lengths.push_back(extent(std::max<std::int64_t>(0, positions_ - rows_)));
    t.seqlens_k = tensor_.index({batch_}, lengths);
    for (std::int64_t i = 0; i < batch_ * pages; ++i) table.push_back(batch_ * pages - 1 - i);
    if (paged) t.block_table = tensor_.index({batch_, pages}, table);
    if (flag()) t.rotary = rotary();
    if (runs({t.k_new, t.v_new, t.k_cache, t.v_cache})) guarded([&] { splitq::append_kv(t); });
  }

  void rotate() {
    const TensorView x = tensor_(dtype_, {batch_, rows_, heads_, dim_});
    const TensorView out = flag() ? x : tensor_(dtype_, {batch_, rows_, heads_, dim_});
    const splitq::Rotary table = rotary();
    const TensorView offsets =
        flag() ? tensor_.index({batch_}, Shape(static_cast<std::size_t>(batch_), extent(20))) : TensorView{};
    if (runs({x, out})) guarded([&] { splitq::apply_rotary(x, out, table, offsets); });
  }

 private:
  bool flag() { return bytes_.ConsumeBool(); }
  std::int64_t extent(std::int64_t max) { return bytes_.ConsumeIntegralInRange<std::int64_t>(0, max); }

  splitq::Rotary rotary() {
    const DType dtype = flag() ? DType::kFp32 : dtype_;
    const std::int64_t half = 1 + extent(std::max<std::int64_t>(0, dim_ / 2 - 1));
    return {tensor_(dtype, {positions_, half}), tensor_(dtype, {positions_, half}), flag()};
  }

  /// Whether every tensor has its memory, and the work is done in an instant.
  bool runs(const std::vector<TensorView>& views) const {
    constexpr std::int64_t kMost = std::int64_t{1} << 20;
    for (const TensorView& view : views) {
      std::int64_t elements = 1;
      for (int d = 0; d < view.rank && d < splitq::kMaxRank; ++d) {
        if (__builtin_mul_overflow(elements, std::max<std::int64_t>(view.shape[d], 1), &elements)) return false;
      }
      if (elements > kMost) return false;
    }
    return tensor_.all_in_memory();
  }

  template <class Compute>
  static void guarded(const Compute& compute) {
    try {
      compute();
    } catch (const splitq::Error& error) {
      if (*error.what() == '\0') std::abort();
    }
  }

  FuzzedDataProvider& bytes_;
  splitq::fuzz::TensorSource tensor_;
  std::int64_t batch_ = 0, heads_ = 0, rows_ = 0, dim_ = 0, dim_v_ = 0, positions_ = 0;
  DType dtype_ = DType::kFp32;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider bytes(data, size);
  if (bytes.ConsumeBool()) {
    Call(bytes).append();
  } else {
    Call(bytes).rotate();
  }
  return 0;
}
