#include "cpu/kernels.hpp"

#include <algorithm>

namespace splitq::cpu {

Band Call::band(std::int64_t b) const {
  const Sequence& s = sequences[b];
  return {s.seqlen_k - s.seqlen_q, problem.window_left, problem.window_right, s.seqlen_k};
}

std::int64_t Call::splits(std::int64_t b) const {
  if (plan.split_keys == 0) return 1;
  return std::max<std::int64_t>(1, (sequences[b].seqlen_k + plan.split_keys - 1) / plan.split_keys);
}

std::int64_t Call::key_tiles(std::int64_t b) const { return (sequences[b].seqlen_k + plan.tile_n - 1) / plan.tile_n; }

float* Call::lse(const TensorView& view, std::int64_t b, std::int64_t h, std::int64_t i) const {
  auto* data = static_cast<float*>(view.data);
  if (view.rank == 2) return data + h * view.strides[0] + (sequences[b].q_begin + i) * view.strides[1];
  return data + b * view.strides[0] + h * view.strides[1] + i * view.strides[2];
}

KeyRange task_keys(const Call& call, const Task& task) {
  const Band band = call.band(task.sequence);
  const std::int64_t group = call.problem.group();
  const KeyRange first = visible_keys(band, task.row_begin / group);
  const KeyRange last = visible_keys(band, (task.row_end - 1) / group);
  KeyRange range{std::max<long long>(first.begin, task.key_begin), std::min<long long>(last.end, task.key_end)};
  if (range.begin >= range.end) return {0, 0};
  range.begin -= range.begin % call.plan.tile_n;
  return range;
}

}  // namespace splitq::cpu
