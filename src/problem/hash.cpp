#include <functional>

#include "problem/problem.hpp"

namespace splitq {
namespace {

template <class T>
void mix(std::size_t& seed, const T& value) {
  seed ^= std::hash<T>{}(value) + 0x9E3779B97F4A7C15u + (seed << 6) + (seed >> 2);
}

}  // namespace

std::size_t hash_value(const Problem& p) {
  std::size_t seed = 0;
  mix(seed, p.direction), mix(seed, p.device.kind), mix(seed, p.device.index), mix(seed, p.dtype);
  for (const std::int64_t size : {p.batch, p.heads_q, p.heads_kv, p.head_dim, p.head_dim_v, p.max_seqlen_q,
                                  p.max_seqlen_k, p.page_size, p.window_left, p.window_right}) {
    mix(seed, size);
  }
  mix(seed, p.scale), mix(seed, p.softcap), mix(seed, p.dropout), mix(seed, p.seed), mix(seed, p.offset);
  mix(seed, p.deterministic);
  for_each_tensor(p.tensors, [&](const char*, const TensorInfo& t) {
    mix(seed, t.dtype), mix(seed, t.rank);
    for (int d = 0; d < kMaxRank; ++d) mix(seed, t.shape[d]), mix(seed, t.strides[d]);
  });
  return seed;
}

}  // namespace splitq
