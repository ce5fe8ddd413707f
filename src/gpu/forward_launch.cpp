#include "gpu/forward_launch.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "gpu/tiles.hpp"

namespace splitq::gpu {
namespace {

constexpr std::int64_t kMaxHeadDim = 256;
constexpr int kFirstWithBf16 = 80;
constexpr std::int64_t kFewQueries = 64;  // half a tile
constexpr double kLog2e = 1.4426950408889634;

Element element(DType dtype) {
  return dtype == DType::kFp32 ? Element::kFp32 : dtype == DType::kFp16 ? Element::kFp16 : Element::kBf16;
}

/// (B, S, H, D), (pages, page_size, H, D), or packed (rows, H, D).
TensorStrides row_strides(const TensorView& t) {
  if (t.rank == 3) return {0, t.strides[0], t.strides[1], t.strides[2]};
  return {t.strides[0], t.strides[1], t.strides[2], t.strides[3]};
}

/// (B, H, S), or packed (H, rows).
TensorStrides lse_strides(const TensorView& t) {
  if (t.rank == 2) return {0, t.strides[1], t.strides[0], 0};
  return {t.strides[0], t.strides[2], t.strides[1], 0};
}

BroadcastStrides broadcast_strides(const TensorView& t) {
  const auto stride = [&](int d) { return t.shape[d] == 1 ? 0 : t.strides[d]; };
  return {stride(0), stride(1), stride(2), stride(3)};
}

/// Along the last dimension.
IndexArray index_array(const TensorView& t) {
  IndexArray a{};
  if (t.given()) a.stride = t.strides[t.rank - 1], a.wide = t.dtype == DType::kInt64 ? 1 : 0;
  return a;
}

/// Every row begins at a multiple of 16 bytes, and ends at one.
bool aligned(const TensorView& t) {
  if (t.size() == 0) return true;
  constexpr std::int64_t kBytes = 16, kElements = kBytes / 2;
  if (reinterpret_cast<std::uintptr_t>(t.data) % kBytes != 0 || t.shape[t.rank - 1] % kElements != 0) return false;
  for (int d = 0; d + 1 < t.rank; ++d) {
    if (t.shape[d] > 1 && t.strides[d] % kElements != 0) return false;
  }
  return true;
}

bool aligned(const Tensors& t) { return aligned(t.q) && aligned(t.k) && aligned(t.v) && aligned(t.out); }

/// Where the tensors lie: all that changes from one call to the next of the same problem.
void set_pointers(const Tensors& t, ForwardParams* p) {
  p->q = t.q.data, p->k = t.k.data, p->v = t.v.data, p->out = t.out.data;
  p->softmax_lse = static_cast<float*>(t.softmax_lse.data);
  p->alibi_slopes = static_cast<const float*>(t.alibi_slopes.data);
  p->bias = t.bias.data;
  p->mask = static_cast<const unsigned char*>(t.mask.data);
  p->sink = static_cast<const float*>(t.sink.data);
  p->cu_seqlens_q.data = t.cu_seqlens_q.data, p->cu_seqlens_k.data = t.cu_seqlens_k.data;
  p->seqlens_q.data = t.seqlens_q.data, p->seqlens_k.data = t.seqlens_k.data;
  p->block_table.data = t.block_table.data;
}

/// Head sizes that there are kernels for: multiples of 32, and of 64 above 192.
int round_up(std::int64_t head_dim) {
  const std::int64_t step = head_dim > 192 ? 64 : 32;
  return static_cast<int>((head_dim + step - 1) / step * step);
}

/// Can the running maximum be kept in scores? Not where a scale turns their order around, or has no ordinary reciprocal.
bool keeps_order(double scale) { return scale > 0x1p-100 && scale < 0x1p+100; }

bool dense_rows(const TensorView& t) { return t.strides[t.rank - 1] == 1; }

/// Is there a kernel with matrix instructions?
bool has_sm80_kernel(const Problem& problem, const Tensors& t, const Target& target) {
  const bool has_type =
      problem.dtype == DType::kFp16 || (problem.dtype == DType::kBf16 && target.compute_capability >= kFirstWithBf16);
  return has_type && problem.head_dim <= kMaxHeadDim && problem.head_dim_v <= kMaxHeadDim && !problem.paged() &&
         dense_rows(t.q) && dense_rows(t.k) && dense_rows(t.v) && dense_rows(t.out);
}

/// Kernels count rows, keys, pages and blocks in 32 bits.
Status check_counts(const Problem& problem, const ForwardLaunch& launch) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kLargestTile = 1024;  // a tile may reach past the end
  for (const auto& [what, count] : {std::pair{"Sq * Hq / Hkv", problem.max_seqlen_q * problem.group() + kLargestTile},
                                    {"Sk", problem.max_seqlen_k + kLargestTile},
                                    {"pages", problem.paged() ? problem.tensors.k.shape[0] : 0},
                                    {"blocks", launch.blocks},
                                    {"B * Hq", problem.batch * problem.heads_q}}) {
    if (count > kMost)
      return Status::unsupported(fmt::format("{}: {}; must be at most {} on a GPU", what, count, kMost));
  }
  return {};
}

std::int64_t tiles(std::int64_t rows, std::int64_t tile) { return (rows + tile - 1) / tile; }

}  // namespace

sm80::Config choose_config(const Problem& problem, const Tensors& t, const Target& target) {
  sm80::Config c{};
  c.element = element(problem.dtype);
  c.head_dim = round_up(problem.head_dim), c.head_dim_v = round_up(problem.head_dim_v);
  c.padded = c.head_dim != problem.head_dim || c.head_dim_v != problem.head_dim_v;
  c.aligned = aligned(t);
  c.banded = problem.window_left >= 0 || problem.window_right >= 0;
  c.softcap = problem.softcap > 0;
  c.alibi = t.alibi_slopes.given();
  c.bias = t.bias.given();
  c.scaled = !c.transformed() && !keeps_order(problem.scale);
  c.mask = t.mask.given();
  c.dropout = problem.dropout > 0;
  c.indexed = problem.packed_q() || problem.packed_k() || t.seqlens_q.given() || t.seqlens_k.given();
  // Few queries would leave most of a tile empty; the heads that share keys fill it.
  c.pack_group = problem.group() > 1 && problem.max_seqlen_q <= kFewQueries;
  return with_tiles(c, target);
}

ForwardParams forward_params(const Problem& problem, const Tensors& t, bool transformed) {
  ForwardParams p{};
  p.q_stride = row_strides(t.q), p.k_stride = row_strides(t.k), p.v_stride = row_strides(t.v);
  p.out_stride = row_strides(t.out);
  if (t.softmax_lse.given()) p.lse_stride = lse_strides(t.softmax_lse);

  p.batch = static_cast<int>(problem.batch);
  p.heads_q = static_cast<int>(problem.heads_q), p.heads_kv = static_cast<int>(problem.heads_kv);
  p.group = static_cast<int>(problem.group());
  p.head_dim = static_cast<int>(problem.head_dim), p.head_dim_v = static_cast<int>(problem.head_dim_v);
  p.seqlen_q = problem.max_seqlen_q, p.seqlen_k = problem.max_seqlen_k;
  p.window_left = problem.window_left, p.window_right = problem.window_right;

  p.scale = static_cast<float>(problem.scale), p.wide_scale = problem.scale;
  p.unit = static_cast<float>(transformed ? kLog2e : problem.scale * kLog2e);
  p.softcap = static_cast<float>(problem.softcap);
  if (t.alibi_slopes.given()) {
    const bool per_batch = t.alibi_slopes.rank == 2;
    p.alibi_batch_stride = per_batch ? t.alibi_slopes.strides[0] : 0;
    p.alibi_head_stride = t.alibi_slopes.strides[per_batch ? 1 : 0];
  }
  if (t.bias.given()) {
    p.bias_stride = broadcast_strides(t.bias);
    p.bias_is_fp32 = t.bias.dtype == DType::kFp32 ? 1 : 0;
  }
  if (t.mask.given()) p.mask_stride = broadcast_strides(t.mask);
  if (t.sink.given()) p.sink_stride = t.sink.strides[0];
  p.dropout = dropout_stream(problem.seed, problem.offset, problem.dropout);
  p.dropout_factor = static_cast<float>(1.0 / (1.0 - problem.dropout));
  p.cu_seqlens_q = index_array(t.cu_seqlens_q), p.cu_seqlens_k = index_array(t.cu_seqlens_k);
  p.seqlens_q = index_array(t.seqlens_q), p.seqlens_k = index_array(t.seqlens_k);
  p.page_size = static_cast<int>(problem.page_size);
  p.block_table = index_array(t.block_table);
  if (problem.paged()) p.block_table_sequence_stride = t.block_table.strides[0];
  set_pointers(t, &p);
  return p;
}

general::Config choose_config(const Problem& problem) {
  return general_config(element(problem.dtype), problem.head_dim_v);
}

std::int64_t forward_blocks(const Problem& problem, const sm80::Config& config) {
  const std::int64_t rows = problem.max_seqlen_q * (config.pack_group ? problem.group() : 1);
  const std::int64_t heads = config.pack_group ? problem.heads_kv : problem.heads_q;
  return tiles(rows, config.tile_m) * heads * problem.batch;
}

std::int64_t forward_blocks(const Problem& problem, const general::Config& config) {
  return tiles(problem.max_seqlen_q * problem.group(), config.tile_m()) * problem.heads_kv * problem.batch *
         tiles(problem.head_dim_v, config.block_columns());
}

Status make_forward_launch(const Problem& problem, const Tensors& tensors, const Target& target,
                           ForwardLaunch* launch) {
  const auto take = [&](const auto& config, bool transformed) {
    static_cast<Kernel&>(*launch) = forward_kernel(config);
    launch->params = forward_params(problem, tensors, transformed);
    launch->blocks = forward_blocks(problem, config);
  };
  if (has_sm80_kernel(problem, tensors, target)) {
    const sm80::Config config = choose_config(problem, tensors, target);
    take(config, config.transformed());
    launch->aligned = config.aligned;
  } else {
    take(choose_config(problem), true);
    launch->aligned = false;
  }
  return check_counts(problem, *launch);
}

bool move_to(const Tensors& tensors, ForwardLaunch* launch) {
  if (launch->aligned && !aligned(tensors)) return false;
  set_pointers(tensors, &launch->params);
  return true;
}

}  // namespace splitq::gpu
