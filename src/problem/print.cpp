// A problem in words.
#include <fmt/format.h>

#include "problem/features.hpp"
#include "problem/names.hpp"

namespace splitq {

std::string to_string(const Problem& problem) {
  const Problem& p = problem;
  std::string text;
  auto line = [&text](const char* name, const std::string& value) { text += fmt::format("{:<14} {}\n", name, value); };
  line("problem", fmt::format("{}, {}, on {}", to_string(p.direction), to_string(p.dtype), to_string(p.device)));
  line("batch", fmt::format("{}", p.batch));
  line("heads", p.heads_q == p.heads_kv ? fmt::format("{}", p.heads_q)
                                        : fmt::format("{} of q, {} of k and v", p.heads_q, p.heads_kv));
  line("head_dim", p.head_dim == p.head_dim_v ? fmt::format("{}", p.head_dim)
                                              : fmt::format("{} of q and k, {} of v", p.head_dim, p.head_dim_v));
  line("seqlen_q", fmt::format("{}{}", p.packed_q() ? "packed, in all " : "", p.max_seqlen_q));
  line("seqlen_k", p.paged() ? fmt::format("paged, at most {} in pages of {}", p.max_seqlen_k, p.page_size)
                             : fmt::format("{}{}", p.packed_k() ? "packed, in all " : "", p.max_seqlen_k));
  line("scale", fmt::format("{}", p.scale));
  if (p.window_left >= 0 || p.window_right >= 0) {
    auto side = [](std::int64_t n) { return n < 0 ? std::string("unlimited") : fmt::format("{}", n); };
    line("window", p.window_left < 0 && p.window_right == 0
                       ? "causal"
                       : fmt::format("left {}, right {}", side(p.window_left), side(p.window_right)));
  }
  if (p.softcap > 0) line("softcap", fmt::format("{}", p.softcap));
  if (p.dropout > 0) line("dropout", fmt::format("{}, seed {}, offset {}", p.dropout, p.seed, p.offset));
  if (p.deterministic) line("deterministic", "yes");
  for_each_tensor(p.tensors, [&](const char* name, const TensorInfo& t) {
    if (t.given()) line(name, fmt::format("{} {} strides {}", to_string(t.dtype), shape_string(t), strides_string(t)));
  });
  return text;
}

}  // namespace splitq
