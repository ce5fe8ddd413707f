// Rows of a tensor of any type and stride into fp32 tiles, and back.
#pragma once

#include "cpu/kernels.hpp"
#include "cpu/simd/vector-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace splitq::cpu::SPLITQ_ISA {

inline constexpr std::uint32_t kNotFinite = 0x7F800000;  // bits of infinity; those of a NaN are greater

inline constexpr std::int64_t kRowsAhead = 8;  // from a request for a row to its use

/// Asks for `bytes` bytes that are read soon.
HWY_INLINE void prefetch(const std::byte* from, std::int64_t bytes) {
  constexpr std::int64_t kLine = 64;
  for (std::int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(from + at);
}

/// kLanes consecutive elements as fp32.
HWY_INLINE Vec load_vector(const float* p) { return hn::LoadU(kF, p); }
HWY_INLINE Vec load_vector(const Bf16* p) {
  const hn::Rebind<std::uint16_t, F32> d16;
  return hn::BitCast(kF, hn::ShiftLeft<16>(hn::PromoteTo(kU, hn::LoadU(d16, &p->bits))));
}
HWY_INLINE Vec load_vector(const Fp16* p) {
  const hn::Rebind<hwy::float16_t, F32> d16;
  return hn::PromoteTo(kF, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
}

/// Rows first .. first + count - 1 to dst (row-major, `stride` floats apart, stride a multiple of kLanes >= dim), zeros in the
/// columns past dim and the rows up to padded_rows. Returns the largest magnitude's bits: kNotFinite or more if one is not finite.
template <class Storage>
std::uint32_t load_rows_as(const Rows& rows, std::int64_t first, std::int64_t count, std::int64_t dim, float* dst,
                           std::int64_t stride) {
  auto largest = hn::Zero(kU);
  const auto magnitude = hn::Set(kU, 0x7FFFFFFFu);
  for (std::int64_t r = 0; r < count; ++r) {
    const auto* src = reinterpret_cast<const Storage*>(rows.row(first + r));
    float* to = dst + r * stride;
    // Rows of one head lie apart, in pages and sets of their own: no hardware prefetcher follows them.
    if (r + kRowsAhead < count)
      prefetch(rows.row(first + r + kRowsAhead), dim * static_cast<std::int64_t>(sizeof(Storage)));
    std::int64_t d = 0;
    if (rows.element_stride == 1) {
      for (; d + kLanes <= dim; d += kLanes) {
        const Vec x = load_vector(src + d);
        largest = hn::Max(largest, hn::And(hn::BitCast(kU, x), magnitude));
        hn::StoreU(x, kF, to + d);
      }
    }
    const std::int64_t tail = d;
    for (; d < dim; ++d) to[d] = to_float(src[d * rows.element_stride]);
    for (; d < stride; ++d) to[d] = 0.0f;
    for (d = tail; d < dim; d += kLanes) {
      largest = hn::Max(largest, hn::And(hn::BitCast(kU, hn::LoadU(kF, to + d)), magnitude));
    }
  }
  return hn::GetLane(hn::MaxOfLanes(kU, largest));
}

inline std::uint32_t load_rows(const Rows& rows, std::int64_t first, std::int64_t count, std::int64_t padded_rows,
                               std::int64_t dim, float* dst, std::int64_t stride) {
  const std::uint32_t largest = with_storage_type(
      rows.dtype, [&](auto x) { return load_rows_as<decltype(x)>(rows, first, count, dim, dst, stride); });
  for (std::int64_t i = count * stride; i < padded_rows * stride; ++i) dst[i] = 0.0f;
  return largest;
}

/// Floats from one row of a K, V, Q tile to the next: whole vectors, and an odd number of cache lines, so that walking down
/// a column meets every set of the cache.
constexpr std::int64_t tile_stride(std::int64_t dim) {
  const std::int64_t line = 16;
  return round_up(dim, line) / line % 2 == 0 ? round_up(dim, line) + line : round_up(dim, line);
}

constexpr std::int64_t packed_floats(std::int64_t tile_n, std::int64_t dim) { return tile_n * tile_stride(dim); }

/// Keys j0 .. j0 + keys - 1 and their values, into tiles. Rows that fill up the last register tile are 0.
inline KeyTile load_key_tile(const Call& call, std::int64_t sequence, std::int64_t head_kv, std::int64_t j0,
                             std::int64_t keys, float* k, float* v) {
  const Problem& p = call.problem;
  const std::int64_t padded = round_up(keys, kRowAlign);
  KeyTile tile{k, v};
  tile.largest_k =
      load_rows(call.keys(call.tensors.k, sequence, head_kv), j0, keys, padded, p.head_dim, k, tile_stride(p.head_dim));
  tile.largest_v = load_rows(call.keys(call.tensors.v, sequence, head_kv), j0, keys, padded, p.head_dim_v, v,
                             tile_stride(p.head_dim_v));
  return tile;
}

/// The tile at j0, packed before or loaded now. A packed tile may hold keys behind the last that the caller asks for.
inline KeyTile key_tile(const Call& call, const Task& task, std::int64_t j0, std::int64_t keys, float* k, float* v) {
  if (call.plan.pack_heads == 0) return load_key_tile(call, task.sequence, task.head_kv, j0, keys, k, v);
  return call.packed[call.packed_index(task.sequence, task.head_kv, j0 / call.plan.tile_n)];
}

inline KeyTile pack(const Call& call, std::int64_t sequence, std::int64_t head_kv, std::int64_t tile, float* k,
                    float* v) {
  const std::int64_t j0 = tile * call.plan.tile_n;
  const std::int64_t left = call.sequences[sequence].seqlen_k - j0;
  return load_key_tile(call, sequence, head_kv, j0, left < call.plan.tile_n ? left : call.plan.tile_n, k, v);
}

/// dst[c][r] = factor * src[r][c].
inline void transpose(const float* HWY_RESTRICT src, std::int64_t src_stride, std::int64_t rows, std::int64_t columns,
                      float factor, float* HWY_RESTRICT dst, std::int64_t dst_stride) {
  constexpr std::int64_t kBlock = 16;  // a cache line on either side
  for (std::int64_t r0 = 0; r0 < rows; r0 += kBlock) {
    const std::int64_t r1 = r0 + kBlock < rows ? r0 + kBlock : rows;
    for (std::int64_t c = 0; c < columns; ++c) {
      for (std::int64_t r = r0; r < r1; ++r) dst[c * dst_stride + r] = factor * src[r * src_stride + c];
    }
  }
}

/// dst[d] = factor * src[d] in the tensor's type.
inline void store_row(const Rows& rows, std::int64_t s, const float* HWY_RESTRICT src, std::int64_t dim, float factor) {
  with_storage_type(rows.dtype, [&](auto x) {
    using Storage = decltype(x);
    auto* to = reinterpret_cast<Storage*>(rows.row(s));
    if (rows.element_stride == 1) {
      for (std::int64_t d = 0; d < dim; ++d) to[d] = from_float<Storage>(factor * src[d]);
    } else {
      for (std::int64_t d = 0; d < dim; ++d) to[d * rows.element_stride] = from_float<Storage>(factor * src[d]);
    }
  });
}

}  // namespace splitq::cpu::SPLITQ_ISA
HWY_AFTER_NAMESPACE();
