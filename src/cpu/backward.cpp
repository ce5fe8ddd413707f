// Backward on the CPU: tasks, the fp32 sums of what several tasks add to, and their conversion.
#include <algorithm>

#include "cpu/key_sums.hpp"
#include "cpu/memory.hpp"
#include "cpu/packed_keys.hpp"
#include "cpu/parallel.hpp"
#include "cpu/run_direction.hpp"
#include "cpu/turnstile.hpp"

namespace splitq::cpu {
namespace {

/// dbias, summed by tasks in fp32: in the tensor itself where that is its type, in contiguous workspace otherwise.
class BiasSum {
 public:
  explicit BiasSum(const TensorView& result) : result_(result), sum_(result) {
    if (!result.given()) return;
    if (result.dtype != DType::kFp32) {
      memory_ = allocate(static_cast<std::size_t>(result.size()) * sizeof(float));
      sum_.data = memory_.get();
      sum_.dtype = DType::kFp32;
      std::int64_t stride = 1;
      for (int d = result.rank - 1; d >= 0; --d) {
        sum_.strides[d] = stride;
        stride *= result.shape[d];
      }
    }
    fill(sum_, 0.0f);
  }

  const TensorView& view() const { return sum_; }

  /// Converts to the tensor's type. Any four dimensions, the last the fastest.
  void finish(const Kernels& kernels, int threads) const {
    if (!memory_ || result_.size() == 0) return;
    const int d = result_.rank;
    const std::int64_t dim = result_.shape[d - 1], rows = result_.shape[d - 2];
    const std::int64_t outer = result_.size() / (dim * rows);
    for_each_task(threads, outer,
                  [&](int, std::int64_t i) { kernels.convert_rows(slice(sum_, i), slice(result_, i), rows, dim); });
  }

 private:
  /// The last two dimensions, at index i of the others.
  static Rows slice(const TensorView& view, std::int64_t i) {
    std::int64_t offset = 0;
    for (int d = view.rank - 3; d >= 0; --d) {
      offset += i % view.shape[d] * view.strides[d];
      i /= view.shape[d];
    }
    const auto bytes = static_cast<std::int64_t>(size_of(view.dtype));
    Rows rows;
    rows.base = static_cast<std::byte*>(view.data) + offset * bytes;
    rows.dtype = view.dtype;
    rows.row_stride = view.strides[view.rank - 2] * bytes;
    rows.element_stride = view.strides[view.rank - 1];
    return rows;
  }

  TensorView result_;
  TensorView sum_;
  Memory memory_;
};

/// The last rows first, as in forward; heads side by side so that neighbours in time add to different rows. Where all heads
/// take turns together, head after head.
std::vector<Task> make_tasks(const Call& call, bool shared) {
  std::vector<Task> tasks;
  const auto batch = static_cast<std::int64_t>(call.sequences.size());
  const auto tiles = [&](std::int64_t b) { return (call.rows(b) + call.plan.tile_m - 1) / call.plan.tile_m; };
  const auto add = [&](std::int64_t b, std::int64_t h, std::int64_t tile) {
    const std::int64_t begin = tile * call.plan.tile_m;
    tasks.push_back({b, h, begin, std::min(call.rows(b), begin + call.plan.tile_m), 0, call.sequences[b].seqlen_k, -1,
                     static_cast<std::int64_t>(tasks.size())});
  };
  if (shared) {
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t h = 0; h < call.problem.heads_kv; ++h) {
        for (std::int64_t t = tiles(b) - 1; t >= 0; --t) add(b, h, t);
      }
    }
    return tasks;
  }
  std::int64_t most = 0;
  for (std::int64_t b = 0; b < batch; ++b) most = std::max(most, tiles(b));
  for (std::int64_t t = most - 1; t >= 0; --t) {
    for (std::int64_t b = 0; b < batch; ++b) {
      if (t >= tiles(b)) continue;
      for (std::int64_t h = 0; h < call.problem.heads_kv; ++h) add(b, h, t);
    }
  }
  return tasks;
}

}  // namespace

void run_backward(Call& call, const Kernels& kernels) {
  const Problem& p = call.problem;
  const Tensors& t = call.tensors;
  if (p.packed_q() || t.seqlens_q.given()) fill(t.dq, 0.0f);  // rows behind a length
  const BiasSum dbias(t.dbias);
  call.dbias_sum = dbias.view();

  // Heads or sequences that share a bias add to the same gradient.
  const bool shared =
      t.dbias.given() && ((t.dbias.shape[0] == 1 && p.batch > 1) || (t.dbias.shape[1] == 1 && p.heads_kv > 1));
  PackedKeys keys(call, kernels);
  KeySums sums(call, kernels, keys);
  std::vector<Task> tasks = make_tasks(call, shared);
  std::vector<double> dsink(t.dsink.given() ? tasks.size() * static_cast<std::size_t>(p.group()) : 0);
  call.dsink_partial = t.dsink.given() ? dsink.data() : nullptr;

  const std::size_t scratch_bytes = round_up(static_cast<std::int64_t>(kernels.scratch_bytes(p, call.plan)), 4096);
  const Memory scratch = allocate(scratch_bytes * static_cast<std::size_t>(call.plan.threads));
  OrderedTurnstile turnstile(call, shared);
  in_rounds(keys, tasks, [&](std::int64_t round, std::size_t begin, std::size_t end) {
    sums.open(round);
    for_each_task(call.plan.threads, static_cast<std::int64_t>(end - begin), [&](int worker, std::int64_t i) {
      kernels.backward(call, tasks[begin + static_cast<std::size_t>(i)],
                       Arena(scratch.get() + scratch_bytes * static_cast<std::size_t>(worker)), turnstile);
    });
    sums.close(round);
  });
  dbias.finish(kernels, call.plan.threads);

  if (!t.dsink.given()) return;
  std::vector<double> total(static_cast<std::size_t>(p.heads_q));
  for (const Task& task : tasks) {
    for (std::int64_t g = 0; g < p.group(); ++g) {
      total[static_cast<std::size_t>(task.head_kv * p.group() + g)] +=
          dsink[static_cast<std::size_t>(task.index * p.group() + g)];
    }
  }
  for (std::int64_t h = 0; h < p.heads_q; ++h) {
    static_cast<float*>(t.dsink.data)[h * t.dsink.strides[0]] = static_cast<float>(total[static_cast<std::size_t>(h)]);
  }
}

}  // namespace splitq::cpu
