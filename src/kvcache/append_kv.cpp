#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <vector>

#include "kvcache/kvcache.hpp"
#include "kvcache/rotate.hpp"
#include "problem/views.hpp"

namespace splitq::kvcache {
namespace {

/// The sizes that the checks establish.
struct Sizes {
  std::int64_t batch = 0, seqlen_new = 0, heads = 0, head_dim = 0, head_dim_v = 0;
  std::int64_t page_size = 0;  // 0: not paged
  std::int64_t capacity = 0;   // keys that one sequence has room for
};

bool rotated(const AppendTensors& t) { return t.rotary.cos.given() || t.rotary.sin.given(); }

Status check_shapes(const AppendTensors& t, Sizes* sizes) {
  const NamedView views[] = {{"k_new", &t.k_new},           {"v_new", &t.v_new},
                             {"k_cache", &t.k_cache, true}, {"v_cache", &t.v_cache, true},
                             {"seqlens_k", &t.seqlens_k},   {"block_table", &t.block_table},
                             {"cos", &t.rotary.cos},        {"sin", &t.rotary.sin}};
  SPLITQ_TRY(check_views(views));
  for (const NamedView& v : std::span(views).first(5)) {
    if (!v.view->given()) return Status::invalid(fmt::format("{}: not given; must be given", v.name));
  }
  SPLITQ_TRY(check_on_cpu("k_new", t.k_new, "append"));

  SPLITQ_TRY(match_type("k_new", info(t.k_new), {DType::kFp32, DType::kFp16, DType::kBf16}));
  for (const NamedView& v : std::span(views).subspan(1, 3)) {
    SPLITQ_TRY(match_type(v.name, info(*v.view), {t.k_new.dtype}, ", the type of k_new"));
  }
  for (const NamedView& v : std::span(views).subspan(4, 2)) {
    SPLITQ_TRY(match_type(v.name, info(*v.view), {DType::kInt32, DType::kInt64}));
  }

  const bool paged = t.block_table.given();
  Extent batch{"B"}, seqlen_new{"S_new"}, heads{"Hkv"}, head_dim{"D"}, head_dim_v{"Dv"};
  Extent capacity{"Sk"}, pages{"pages"}, page_size{"page_size"}, max_pages{"max_pages"};
  auto like_cache = [&](const char* name, const TensorView& cache, Extent& width) {
    return paged ? match(name, info(cache), {{pages, page_size, heads, width}})
                 : match(name, info(cache), {{batch, capacity, heads, width}});
  };
  SPLITQ_TRY(match("k_new", info(t.k_new), {{batch, seqlen_new, heads, head_dim}}));
  SPLITQ_TRY(match("v_new", info(t.v_new), {{batch, seqlen_new, heads, head_dim_v}}));
  SPLITQ_TRY(like_cache("k_cache", t.k_cache, head_dim));
  SPLITQ_TRY(like_cache("v_cache", t.v_cache, head_dim_v));
  SPLITQ_TRY(match("seqlens_k", info(t.seqlens_k), {{batch}}));
  SPLITQ_TRY(match("block_table", info(t.block_table), {{batch, max_pages}}));
  if (paged && page_size.value < 1) return Status::invalid("k_cache: page_size 0; must be at least 1");
  if (rotated(t)) SPLITQ_TRY(check_rotary(t.rotary, "k_new", t.k_new, head_dim.value));

  *sizes = {batch.value,   seqlen_new.value, heads.value, head_dim.value, head_dim_v.value, paged ? page_size.value : 0,
            capacity.value};
  if (paged && __builtin_mul_overflow(max_pages.value, page_size.value, &sizes->capacity)) {
    return Status::invalid(fmt::format("block_table: {} pages of {} keys; must reach fewer than 2^63 keys",
                                       max_pages.value, page_size.value));
  }
  return {};
}

/// Every new token has a place of its own.
Status check_places(const AppendTensors& t, const Sizes& sizes) {
  if (sizes.seqlen_new == 0) return {};
  struct Run {  // consecutive rows of one page
    std::int64_t page, begin, end, b, entry;
  };
  std::vector<Run> runs;
  for (std::int64_t b = 0; b < sizes.batch; ++b) {
    const std::int64_t length = index_at(t.seqlens_k, b), room = sizes.capacity - sizes.seqlen_new;
    if (length < 0 || length > room) {
      return Status::invalid(fmt::format(
          "seqlens_k[{}]: {}; must be from 0 to {}, as {} new tokens go behind it and {} holds "
          "{}",
          b, length, room, sizes.seqlen_new, sizes.page_size > 0 ? "block_table" : "k_cache", sizes.capacity));
    }
    if (rotated(t)) SPLITQ_TRY(check_positions(t.rotary, "seqlens_k", b, length, sizes.seqlen_new));
    if (sizes.page_size == 0) continue;
    const std::int64_t end = length + sizes.seqlen_new, pages = t.k_cache.shape[0];
    for (std::int64_t entry = length / sizes.page_size; entry * sizes.page_size < end; ++entry) {
      const std::int64_t page = index_at(t.block_table, b, entry), start = entry * sizes.page_size;
      if (page < 0 || page >= pages) {
        return Status::invalid(fmt::format("block_table[{}, {}]: {}; must be from 0 to {}, as k_cache has {} pages", b,
                                           entry, page, pages - 1, pages));
      }
      runs.push_back(
          {page, std::max(length - start, std::int64_t{0}), std::min(end - start, sizes.page_size), b, entry});
    }
  }
  std::sort(runs.begin(), runs.end(),
            [](const Run& x, const Run& y) { return x.page != y.page ? x.page < y.page : x.begin < y.begin; });
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const Run &x = runs[i - 1], &y = runs[i];
    if (x.page == y.page && y.begin < x.end) {
      return Status::invalid(
          fmt::format("block_table[{}, {}]: {}, the page of block_table[{}, {}]; must be another, as new "
                      "tokens of both would go to its row {}",
                      y.b, y.entry, y.page, x.b, x.entry, y.begin));
    }
  }
  return {};
}

Token place(const AppendTensors& t, const Sizes& sizes, const TensorView& cache, std::int64_t b,
            std::int64_t position) {
  if (sizes.page_size == 0) return token(cache, b, position);
  return token(cache, index_at(t.block_table, b, position / sizes.page_size), position % sizes.page_size);
}

}  // namespace

Status append_kv(const AppendTensors& t) {
  Sizes sizes;
  SPLITQ_TRY(check_shapes(t, &sizes));
  SPLITQ_TRY(check_places(t, sizes));
  tbb::parallel_for(std::int64_t{0}, sizes.batch * sizes.seqlen_new, [&](std::int64_t i) {
    const std::int64_t b = i / sizes.seqlen_new, s = i % sizes.seqlen_new;
    const std::int64_t position = index_at(t.seqlens_k, b) + s;
    const Token k_new = token(t.k_new, b, s), k = place(t, sizes, t.k_cache, b, position);
    if (rotated(t)) {
      rotate(t.k_new.dtype, sizes.heads, sizes.head_dim, k_new, k, t.rotary, position);
    } else {
      copy(t.k_new.dtype, sizes.heads, sizes.head_dim, k_new, k);
    }
    copy(t.k_new.dtype, sizes.heads, sizes.head_dim_v, token(t.v_new, b, s), place(t, sizes, t.v_cache, b, position));
  });
  return {};
}

}  // namespace splitq::kvcache
