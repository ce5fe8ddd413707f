#include "gpu/kernel.hpp"

#include <fmt/format.h>

#include <tuple>
#include <utility>

namespace splitq::gpu {
namespace {

std::string value_text(bool value) { return value ? "true" : "false"; }
std::string value_text(int value) { return std::to_string(value); }
std::string value_text(Element value) {
  const char* name = value == Element::kFp32 ? "kFp32" : value == Element::kFp16 ? "kFp16" : "kBf16";
  return fmt::format("splitq::Element::{}", name);
}
std::string value_text(sm80::Rescale value) {
  return fmt::format("splitq::sm80::Rescale::{}", value == sm80::Rescale::kEveryBlock ? "kEveryBlock" : "kConditional");
}

#define SPLITQ_FIELD(field) std::pair(#field, field)
/// All fields with their names. A field added to Config stops this from compiling until it is in both lists: one
/// forgotten would give the kernel of another configuration.
auto fields(const sm80::Config& config) {
  const auto& [element, head_dim, head_dim_v, tile_m, tile_n, warps, min_blocks, stages, rescale, padded, aligned,
               pack_group, banded, scaled, softcap, alibi, bias, mask, dropout, indexed] = config;
  return std::tuple(SPLITQ_FIELD(element), SPLITQ_FIELD(head_dim), SPLITQ_FIELD(head_dim_v), SPLITQ_FIELD(tile_m),
                    SPLITQ_FIELD(tile_n), SPLITQ_FIELD(warps), SPLITQ_FIELD(min_blocks), SPLITQ_FIELD(stages),
                    SPLITQ_FIELD(rescale), SPLITQ_FIELD(padded), SPLITQ_FIELD(aligned), SPLITQ_FIELD(pack_group),
                    SPLITQ_FIELD(banded), SPLITQ_FIELD(scaled), SPLITQ_FIELD(softcap), SPLITQ_FIELD(alibi),
                    SPLITQ_FIELD(bias), SPLITQ_FIELD(mask), SPLITQ_FIELD(dropout), SPLITQ_FIELD(indexed));
}
auto fields(const general::Config& config) {
  const auto& [element, warps, warp_rows, columns] = config;
  return std::tuple(SPLITQ_FIELD(element), SPLITQ_FIELD(warps), SPLITQ_FIELD(warp_rows), SPLITQ_FIELD(columns));
}
#undef SPLITQ_FIELD

/// The fields that differ from the defaults, as C++.
template <class Config>
std::string initialisers(const Config& config) {
  std::string out;
  const auto add = [&](const auto& field, const auto& standard) {
    if (field.second == standard.second) return;
    out += fmt::format("{}.{} = {}", out.empty() ? "" : ", ", field.first, value_text(field.second));
  };
  const auto ours = fields(config), standard = fields(Config{});
  [&]<std::size_t... I>(std::index_sequence<I...>) { (add(std::get<I>(ours), std::get<I>(standard)), ...); }
  (std::make_index_sequence<std::tuple_size_v<decltype(ours)>>());
  return out;
}

template <class Config>
Kernel kernel(const char* family, const Config& config) {
  return {.header = fmt::format("{}/forward.hpp", family),
          .entry = fmt::format("splitq::{}::forward<{}>", family, to_string(config)),
          .threads = static_cast<unsigned>(config.threads()),
          .shared_bytes = static_cast<std::size_t>(smem_layout(config).bytes)};
}

}  // namespace

std::string to_string(const sm80::Config& config) {
  return fmt::format("splitq::sm80::Config{{{}}}", initialisers(config));
}
std::string to_string(const general::Config& config) {
  return fmt::format("splitq::general::Config{{{}}}", initialisers(config));
}

Kernel forward_kernel(const sm80::Config& config) { return kernel("sm80", config); }
Kernel forward_kernel(const general::Config& config) { return kernel("general", config); }

}  // namespace splitq::gpu
