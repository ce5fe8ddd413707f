#include <cmath>

#include "oracle/attention.hpp"
#include "oracle/philox.hpp"

namespace oracle {

std::int64_t Problem::length_q(std::int64_t b) const {
  if (!seqlens_q.empty()) return seqlens_q[b];
  return cu_seqlens_q.empty() ? seqlen_q : cu_seqlens_q[b + 1] - cu_seqlens_q[b];
}

std::int64_t Problem::length_k(std::int64_t b) const {
  if (!seqlens_k.empty()) return seqlens_k[b];
  return cu_seqlens_k.empty() ? seqlen_k : cu_seqlens_k[b + 1] - cu_seqlens_k[b];
}

std::int64_t Problem::row_q(std::int64_t b, std::int64_t i) const {
  return cu_seqlens_q.empty() ? b * seqlen_q + i : cu_seqlens_q[b] + i;
}

std::int64_t Problem::row_k(std::int64_t b, std::int64_t j) const {
  if (page_size > 0) return block_table[b * max_pages + j / page_size] * page_size + j % page_size;
  return cu_seqlens_k.empty() ? b * seqlen_k + j : cu_seqlens_k[b] + j;
}

std::int64_t Problem::lse_index(std::int64_t b, std::int64_t h, std::int64_t i) const {
  return cu_seqlens_q.empty() ? (b * heads_q + h) * seqlen_q + i : h * q.shape[0] + row_q(b, i);
}

std::int64_t broadcast_index(const Array& a, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
  const auto along = [&a](int dim, std::int64_t index) { return a.shape[dim] == 1 ? 0 : index; };
  return ((along(0, b) * a.shape[1] + along(1, h)) * a.shape[2] + along(2, i)) * a.shape[3] + j;
}

bool Problem::visible(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
  const std::int64_t diagonal = i + length_k(b) - length_q(b);
  if (causal && j > diagonal) return false;
  if (window_left >= 0 && j < diagonal - window_left) return false;
  if (window_right >= 0 && j > diagonal + window_right) return false;
  return !mask.given() || mask.values[broadcast_index(mask, b, h, i, j)] != 0.0;
}

bool Problem::keep(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
  const auto word = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const Philox4 counter{word(j / 4), word(i), word(b * heads_q + h), word(offset)};
  const Philox4 random = philox(counter, {word(seed), word(seed >> 32) ^ word(offset >> 32)});
  return random[j % 4] >= std::floor(dropout * 0x1p32);
}

}  // namespace oracle
