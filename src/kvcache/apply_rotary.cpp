#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include "kvcache/kvcache.hpp"
#include "kvcache/rotate.hpp"
#include "problem/names.hpp"
#include "problem/views.hpp"

namespace splitq::kvcache {
namespace {

Status check(const TensorView& x, const TensorView& out, const Rotary& rotary, const TensorView& offsets) {
  if (!x.given()) return Status::invalid("x: not given; must be given");
  if (!out.given()) return Status::invalid("out: not given; must be given");
  // In place means the same elements in the same order; any other overlap is refused.
  const TensorView none{};
  const bool in_place = x.data == out.data && info(x) == info(out) && x.device == out.device;
  const NamedView views[] = {{"out", &out, true},
                             {"x", in_place ? &none : &x},
                             {"cos", &rotary.cos},
                             {"sin", &rotary.sin},
                             {"offsets", &offsets}};
  SPLITQ_TRY(check_views(views));
  SPLITQ_TRY(check_on_cpu("x", x, "rotary embedding"));
  SPLITQ_TRY(match_type("x", info(x), {DType::kFp32, DType::kFp16, DType::kBf16}));
  SPLITQ_TRY(match_type("out", info(out), {x.dtype}, ", the type of x"));
  SPLITQ_TRY(match_type("offsets", info(offsets), {DType::kInt32, DType::kInt64}));
  Extent batch{"B"}, seqlen{"S"}, heads{"H"}, width{"D"};
  SPLITQ_TRY(match("x", info(x), {{batch, seqlen, heads, width}}));
  SPLITQ_TRY(match("out", info(out), {{batch, seqlen, heads, width}}));
  SPLITQ_TRY(match("offsets", info(offsets), {{batch}}));
  SPLITQ_TRY(check_rotary(rotary, "x", x, width.value));
  for (std::int64_t b = 0; b < batch.value; ++b) {
    SPLITQ_TRY(check_positions(rotary, "offsets", b, offsets.given() ? index_at(offsets, b) : 0, seqlen.value));
  }
  return {};
}

}  // namespace

Status apply_rotary(const TensorView& x, const TensorView& out, const Rotary& rotary, const TensorView& offsets) {
  SPLITQ_TRY(check(x, out, rotary, offsets));
  const auto [batch, seqlen, heads, width] = x.shape;
  tbb::parallel_for(std::int64_t{0}, batch * seqlen,
                    [&, seqlen = seqlen, heads = heads, width = width](std::int64_t i) {
                      const std::int64_t b = i / seqlen, s = i % seqlen;
                      const std::int64_t position = (offsets.given() ? index_at(offsets, b) : 0) + s;
                      rotate(x.dtype, heads, width, token(x, b, s), token(out, b, s), rotary, position);
                    });
  return {};
}

}  // namespace splitq::kvcache
