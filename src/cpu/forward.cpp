// Forward on the CPU: which tasks there are, and in which order they begin.
#include <algorithm>
#include <limits>

#include "cpu/instruction_sets.hpp"
#include "cpu/memory.hpp"
#include "cpu/packed_keys.hpp"
#include "cpu/parallel.hpp"
#include "cpu/run_direction.hpp"

namespace splitq::cpu {
namespace {

std::int64_t tiles(std::int64_t rows, std::int64_t tile) { return (rows + tile - 1) / tile; }

/// All tasks. With kSequence the last rows come first: under a causal mask they see the most keys, and a long task begun
/// last would be waited for. With kBatchHeads the tasks of one key/value head are neighbours.
std::vector<Task> make_tasks(const Call& call) {
  std::vector<Task> tasks;
  const auto few = [&](std::int64_t b) { return call.rows(b) <= call.plan.decode_rows; };
  const auto add = [&](std::int64_t b, std::int64_t h, std::int64_t tile) {
    const std::int64_t heads = few(b) ? call.plan.decode_heads : 1;
    if (h % heads != 0) return;
    const std::int64_t begin = tile * call.plan.tile_m;
    const std::int64_t end = std::min(call.rows(b), begin + call.plan.tile_m);
    const std::int64_t splits = call.splits(b);
    for (std::int64_t s = 0; s < splits; ++s) {
      const std::int64_t first = splits == 1 ? 0 : s * call.plan.split_keys;
      const std::int64_t last = splits == 1 ? std::numeric_limits<std::int64_t>::max() : first + call.plan.split_keys;
      tasks.push_back(
          {b, h, begin, end, first, last, splits == 1 ? -1 : s, 0, std::min(heads, call.problem.heads_kv - h)});
    }
  };
  const auto batch = static_cast<std::int64_t>(call.sequences.size());
  if (call.plan.schedule.parallel == Schedule::Parallel::kBatchHeads) {
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t h = 0; h < call.problem.heads_kv; ++h) {
        for (std::int64_t t = 0; t < tiles(call.rows(b), call.plan.tile_m); ++t) add(b, h, t);
      }
    }
    return tasks;
  }
  std::int64_t most = 0;
  for (std::int64_t b = 0; b < batch; ++b) most = std::max(most, tiles(call.rows(b), call.plan.tile_m));
  for (std::int64_t t = most - 1; t >= 0; --t) {
    for (std::int64_t b = 0; b < batch; ++b) {
      if (t >= tiles(call.rows(b), call.plan.tile_m)) continue;
      for (std::int64_t h = 0; h < call.problem.heads_kv; ++h) add(b, h, t);
    }
  }
  return tasks;
}

/// What one thread runs at a time, of the tasks begin .. end - 1: from one bound to the next.
std::vector<std::int64_t> unit_bounds(const Call& call, const std::vector<Task>& tasks, std::size_t begin,
                                      std::size_t end) {
  std::vector<std::int64_t> bounds{static_cast<std::int64_t>(begin)};
  const bool whole_heads = call.plan.schedule.parallel == Schedule::Parallel::kBatchHeads;
  for (std::size_t i = begin + 1; i < end; ++i) {
    const bool same = tasks[i].sequence == tasks[i - 1].sequence && tasks[i].head_kv == tasks[i - 1].head_kv;
    if (!(whole_heads && same)) bounds.push_back(static_cast<std::int64_t>(i));
  }
  bounds.push_back(static_cast<std::int64_t>(end));
  return bounds;
}

}  // namespace

void run_forward(Call& call, const Kernels& kernels) {
  const Tensors& t = call.tensors;
  if (call.problem.packed_q() || t.seqlens_q.given()) {  // rows behind a length
    fill(t.out, 0.0f);
    if (t.softmax_lse.given()) fill(t.softmax_lse, -std::numeric_limits<float>::infinity());
  }
  std::int64_t partial_rows = 0;
  for (std::size_t b = 0; b < call.sequences.size(); ++b) {
    call.first_partial.push_back(partial_rows);
    const std::int64_t splits = call.splits(static_cast<std::int64_t>(b));
    if (splits > 1) partial_rows += splits * call.rows(static_cast<std::int64_t>(b)) * call.problem.heads_kv;
  }
  Memory partial;
  if (partial_rows > 0) {
    const auto layout = [&](Arena arena) {
      call.partial_out = arena.take<float>(partial_rows * call.problem.head_dim_v);
      call.partial_max = arena.take<float>(partial_rows);
      call.partial_sum = arena.take<float>(partial_rows);
      return arena.used();
    };
    partial = allocate(layout(Arena()));
    layout(Arena(partial.get()));
  }

  PackedKeys keys(call, kernels);
  std::vector<Task> tasks = make_tasks(call);
  if (tasks.empty()) return;
  const std::size_t scratch_bytes =
      round_up(static_cast<std::int64_t>(kernels.scratch_bytes(call.problem, call.plan)), 4096);
  const Memory scratch = allocate(scratch_bytes * static_cast<std::size_t>(call.plan.threads));
  const auto scratch_of = [&](int worker) {
    return Arena(scratch.get() + scratch_bytes * static_cast<std::size_t>(worker));
  };

  in_rounds(keys, tasks, [&](std::int64_t, std::size_t begin, std::size_t end) {
    const std::vector<std::int64_t> bounds = unit_bounds(call, tasks, begin, end);
    for_each_task(call.plan.threads, static_cast<std::int64_t>(bounds.size()) - 1, [&](int worker, std::int64_t unit) {
      for (std::int64_t i = bounds[unit]; i < bounds[unit + 1]; ++i) {
        (call.rows(tasks[i].sequence) <= call.plan.decode_rows ? kernels.decode : kernels.forward)(call, tasks[i],
                                                                                                   scratch_of(worker));
      }
    });
  });
  if (partial_rows == 0) return;
  for_each_task(call.plan.threads, static_cast<std::int64_t>(tasks.size()), [&](int worker, std::int64_t i) {
    if (tasks[i].split != 0) return;
    Task all = tasks[i];
    all.split = -1;
    for (; all.heads > 0; --all.heads, ++all.head_kv) kernels.merge(call, all, scratch_of(worker));
  });
}

}  // namespace splitq::cpu
