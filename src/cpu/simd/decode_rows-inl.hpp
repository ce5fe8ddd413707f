// Rows of a cache before four query rows, lanes along the head dimension: dot products of keys, sums of values.
#pragma once

#include <bit>
#include <type_traits>

#include "cpu/simd/load-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace splitq::cpu::SPLITQ_ISA {

#if HWY_TARGET != HWY_SCALAR

inline constexpr std::int64_t kQuad = 4;
inline constexpr int kDotKeys = kTileRows / 2;  // keys at a time: kDotKeys * kQuad accumulators
inline constexpr int kOutVecs = kTileRows / 2;  // vectors of Dv at a time

/// 2 * kLanes consecutive elements as two vectors, in the order that costs least: bf16's even elements and its odd ones,
/// which are a shift and a mask of 32-bit words; otherwise the first half and the second.
struct Pair {
  Vec first, second;
};
template <class Storage>
HWY_INLINE Pair load_pair(const Storage* p) {
  return {load_vector(p), load_vector(p + kLanes)};
}
HWY_INLINE Pair load_pair(const Bf16* p) {
  const auto words = hn::BitCast(kU, hn::LoadU(hn::Repartition<std::uint16_t, U32>(), &p->bits));
  return {hn::BitCast(kF, hn::ShiftLeft<16>(words)), hn::BitCast(kF, hn::And(words, hn::Set(kU, 0xFFFF0000u)))};
}

/// Position in a row of `dim` elements, read by load_pair as far as whole pairs go, of element d.
template <class Storage>
constexpr std::int64_t pair_position(std::int64_t d, std::int64_t dim) {
  constexpr std::int64_t kPair = 2 * kLanes;
  if (!std::is_same_v<Storage, Bf16> || d >= dim / kPair * kPair) return d;
  return d / kPair * kPair + d % kPair / 2 + d % 2 * kLanes;
}

/// What queries are before keys of a type: fp32 in load_pair's order; bf16 where the processor multiplies that (a bf16 tensor's
/// queries times a power of two are bf16 without rounding).
#ifdef SPLITQ_NATIVE_BF16_DOT
template <class Storage>
using Query = std::conditional_t<std::is_same_v<Storage, Bf16>, Bf16, float>;
#else
template <class Storage>
using Query = float;
#endif

/// to = factor * plain, as queries.
template <class Storage>
void to_queries(const float* HWY_RESTRICT plain, std::int64_t dim, float factor, Query<Storage>* HWY_RESTRICT to) {
  constexpr bool kPlainOrder = !std::is_same_v<Query<Storage>, float>;
  for (std::int64_t d = 0; d < dim; ++d) {
    to[kPlainOrder ? d : pair_position<Storage>(d, dim)] = from_float<Query<Storage>>(factor * plain[d]);
  }
}

/// A row from load_pair's order back into plain order.
inline void from_pairs(DType dtype, const float* HWY_RESTRICT pairs, std::int64_t dim, float* HWY_RESTRICT plain) {
  with_storage_type(dtype, [&](auto x) {
    for (std::int64_t d = 0; d < dim; ++d) plain[d] = pairs[pair_position<decltype(x)>(d, dim)];
  });
}

/// Adds up the 128-bit blocks of a vector.
template <class D>
HWY_INLINE hn::Vec<hn::CappedTag<float, 4>> sum_of_blocks(D /*d*/, hn::Vec<D> x) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return x;
  } else {
    const hn::Half<D> half;
    return sum_of_blocks(half, hn::Add(hn::LowerHalf(half, x), hn::UpperHalf(half, x)));
  }
}

/// a[0]+a[2], b[0]+b[2], a[1]+a[3], b[1]+b[3] in each 128-bit block.
HWY_INLINE Vec add_pairs(Vec a, Vec b) { return hn::Add(hn::InterleaveLower(kF, a, b), hn::InterleaveUpper(kF, a, b)); }

/// Four dot products' partial sums to one block of four sums.
HWY_INLINE hn::Vec<hn::CappedTag<float, 4>> sum_quad(const Vec (&x)[kQuad]) {
  return sum_of_blocks(kF, add_pairs(add_pairs(x[0], x[2]), add_pairs(x[1], x[3])));
}

/// From partial sums over elements 0 .. d - 1 to scores[key][row].
template <int kKeys, class Storage, class Q>
HWY_INLINE void finish_dots(const Vec (&sum)[kKeys][kQuad], const Storage* const (&row)[kKeys], const Q* HWY_RESTRICT q,
                            std::int64_t q_stride, std::int64_t d, std::int64_t dim, float* HWY_RESTRICT scores) {
#pragma GCC unroll 4
  for (int j = 0; j < kKeys; ++j) {
    hn::StoreU(sum_quad(sum[j]), hn::CappedTag<float, 4>(), scores + j * kQuad);
    for (std::int64_t t = d; t < dim; ++t) {
      for (int r = 0; r < kQuad; ++r) scores[j * kQuad + r] += to_float(q[r * q_stride + t]) * to_float(row[j][t]);
    }
  }
}

/// scores[key][row] = q[row] · k[key] for kKeys keys; q in load_pair's order.
template <int kKeys, class Storage>
HWY_INLINE void dot_keys(const std::byte* const* k, std::int64_t offset, const float* HWY_RESTRICT q,
                         std::int64_t q_stride, std::int64_t dim, float* HWY_RESTRICT scores) {
  const Storage* row[kKeys];
  Vec sum[kKeys][kQuad];
#pragma GCC unroll 4
  for (int j = 0; j < kKeys; ++j) {
    row[j] = reinterpret_cast<const Storage*>(k[j] + offset);
#pragma GCC unroll 4
    for (int r = 0; r < kQuad; ++r) sum[j][r] = hn::Zero(kF);
  }
  const auto add = [&](std::int64_t d, const Vec(&key)[kKeys]) HWY_ATTR {
#pragma GCC unroll 4
    for (int r = 0; r < kQuad; ++r) {
      const Vec x = hn::LoadU(kF, q + r * q_stride + d);
#pragma GCC unroll 4
      for (int j = 0; j < kKeys; ++j) sum[j][r] = hn::MulAdd(x, key[j], sum[j][r]);
    }
  };
  std::int64_t d = 0;
  for (; d + 2 * kLanes <= dim; d += 2 * kLanes) {
    Vec first[kKeys], second[kKeys];
#pragma GCC unroll 4
    for (int j = 0; j < kKeys; ++j) {
      const Pair key = load_pair(row[j] + d);
      first[j] = key.first, second[j] = key.second;
    }
    add(d, first);
    add(d + kLanes, second);
  }
  for (; d + kLanes <= dim; d += kLanes) {
    Vec key[kKeys];
    for (int j = 0; j < kKeys; ++j) key[j] = load_vector(row[j] + d);
    add(d, key);
  }
  finish_dots(sum, row, q, q_stride, d, dim, scores);
}

#ifdef SPLITQ_NATIVE_BF16_DOT
HWY_INLINE __m512bh load_bf16(const Bf16* p) { return (__m512bh)_mm512_loadu_si512(p); }  // NOLINT: no other cast

/// The same from q in bf16, plain order: products of pairs, summed in fp32.
template <int kKeys, class Storage>
HWY_INLINE void dot_keys(const std::byte* const* k, std::int64_t offset, const Bf16* HWY_RESTRICT q,
                         std::int64_t q_stride, std::int64_t dim, float* HWY_RESTRICT scores) {
  constexpr std::int64_t kPair = 2 * kLanes;
  const Bf16* row[kKeys];
  Vec sum[kKeys][kQuad];
#pragma GCC unroll 4
  for (int j = 0; j < kKeys; ++j) {
    row[j] = reinterpret_cast<const Bf16*>(k[j] + offset);
#pragma GCC unroll 4
    for (int r = 0; r < kQuad; ++r) sum[j][r] = hn::Zero(kF);
  }
  std::int64_t d = 0;
  for (; d + kPair <= dim; d += kPair) {
    __m512bh key[kKeys];
#pragma GCC unroll 4
    for (int j = 0; j < kKeys; ++j) key[j] = load_bf16(row[j] + d);
#pragma GCC unroll 4
    for (int r = 0; r < kQuad; ++r) {
      const __m512bh x = load_bf16(q + r * q_stride + d);
#pragma GCC unroll 4
      for (int j = 0; j < kKeys; ++j) sum[j][r] = Vec{_mm512_dpbf16_ps(sum[j][r].raw, x, key[j])};
    }
  }
  finish_dots(sum, row, q, q_stride, d, dim, scores);
}
#endif

/// out[row] = out[row] * factor[row] + sum over keys of p[key][row] * v[key], kVecs vectors of the head dimension (1, or
/// pairs, which out has in load_pair's order).
template <int kVecs, class Storage>
HWY_INLINE void add_values(const std::byte* const* v, std::int64_t offset, std::int64_t keys, std::int64_t d,
                           const float* HWY_RESTRICT p, const float* factor, float* HWY_RESTRICT out,
                           std::int64_t out_stride) {
  Vec sum[kQuad][kVecs];
#pragma GCC unroll 4
  for (int r = 0; r < kQuad; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < kVecs; ++n) {
      sum[r][n] = hn::Mul(hn::Set(kF, factor[r]), hn::LoadU(kF, out + r * out_stride + d + n * kLanes));
    }
  }
  for (std::int64_t j = 0; j < keys; ++j) {
    const Storage* row = reinterpret_cast<const Storage*>(v[j] + offset) + d;
    Vec value[kVecs];
#pragma GCC unroll 4
    for (int n = 0; n + 1 < kVecs; n += 2) {
      const Pair pair = load_pair(row + n * kLanes);
      value[n] = pair.first, value[n + 1] = pair.second;
    }
    if constexpr (kVecs == 1) value[0] = load_vector(row);
#pragma GCC unroll 4
    for (int r = 0; r < kQuad; ++r) {
      const Vec x = hn::Set(kF, p[j * kQuad + r]);
#pragma GCC unroll 4
      for (int n = 0; n < kVecs; ++n) sum[r][n] = hn::MulAdd(x, value[n], sum[r][n]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kQuad; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < kVecs; ++n) hn::StoreU(sum[r][n], kF, out + r * out_stride + d + n * kLanes);
  }
}

template <class Storage>
void add_row_values(const std::byte* const* v, std::int64_t offset, std::int64_t keys, std::int64_t dim, const float* p,
                    const float* factor, float* out, std::int64_t out_stride) {
  std::int64_t d = 0;
  for (; d + kOutVecs * kLanes <= dim; d += kOutVecs * kLanes) {
    add_values<kOutVecs, Storage>(v, offset, keys, d, p, factor, out, out_stride);
  }
  for (; d + 2 * kLanes <= dim; d += 2 * kLanes) add_values<2, Storage>(v, offset, keys, d, p, factor, out, out_stride);
  for (; d + kLanes <= dim; d += kLanes) add_values<1, Storage>(v, offset, keys, d, p, factor, out, out_stride);
  for (; d < dim; ++d) {
    for (int r = 0; r < kQuad; ++r) {
      float sum = factor[r] * out[r * out_stride + d];
      for (std::int64_t j = 0; j < keys; ++j) {
        sum += p[j * kQuad + r] * to_float(reinterpret_cast<const Storage*>(v[j] + offset)[d]);
      }
      out[r * out_stride + d] = sum;
    }
  }
}

#endif

}  // namespace splitq::cpu::SPLITQ_ISA
HWY_AFTER_NAMESPACE();
