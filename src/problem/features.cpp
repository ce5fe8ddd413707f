#include "problem/features.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "problem/names.hpp"

namespace splitq {
namespace {

constexpr DeviceSet kNowhere = 0;
constexpr DeviceSet kCpu = device_bit(DeviceKind::kCpu);
constexpr DeviceSet kGpu = device_bit(DeviceKind::kCuda) | device_bit(DeviceKind::kEmulator);  // the same kernels
constexpr DeviceSet kAll = kCpu | kGpu;
constexpr std::array kDevices = {DeviceKind::kCpu, DeviceKind::kCuda, DeviceKind::kEmulator};

constexpr Feature kFeatures[] = {
    {"fp32, fp16, bf16", "types of q, k, v, out and their gradients; accumulation in fp32", kAll, kCpu,
     [](const Problem&) { return true; }},
    {"head_dim != head_dim_v", "v may have another head size than q and k", kAll, kCpu,
     [](const Problem& p) { return p.head_dim != p.head_dim_v; }},
    {"heads_q > heads_kv", "grouped-query and multi-query attention: heads_kv divides heads_q", kAll, kCpu,
     [](const Problem& p) { return p.heads_q != p.heads_kv; }},
    {"causal, window", "visible keys around the diagonal, aligned bottom-right", kAll, kCpu,
     [](const Problem& p) { return p.window_left >= 0 || p.window_right >= 0; }},
    {"mask", "boolean, true = visible; broadcasts over batch, heads, queries", kAll, kCpu,
     [](const Problem& p) { return p.tensors.mask.given(); }},
    {"bias", "added to the logits; broadcasts over batch, heads, queries", kAll, kCpu,
     [](const Problem& p) { return p.tensors.bias.given(); }},
    {"dbias", "gradient of bias, summed over its broadcast dimensions", kNowhere, kCpu,
     [](const Problem& p) { return p.tensors.dbias.given(); }},
    {"alibi_slopes", "a slope per head, or per sequence and head, times the distance from the diagonal", kAll, kCpu,
     [](const Problem& p) { return p.tensors.alibi_slopes.given(); }},
    {"softcap", "c tanh(x / c) in place of the logit x", kAll, kCpu, [](const Problem& p) { return p.softcap > 0; }},
    {"sink", "a logit per head in the denominator alone", kAll, kCpu,
     [](const Problem& p) { return p.tensors.sink.given(); }},
    {"dsink", "gradient of sink", kNowhere, kCpu, [](const Problem& p) { return p.tensors.dsink.given(); }},
    {"dropout", "Philox 4x32-10, a pure function of seed, offset and place", kAll, kCpu,
     [](const Problem& p) { return p.dropout > 0; }},
    {"softmax_lse", "log-sum-exp of every row: written by forward, read by backward", kAll, kCpu,
     [](const Problem& p) { return p.tensors.softmax_lse.given(); }},
    {"dlse", "a gradient that arrives at softmax_lse", kNowhere, kCpu,
     [](const Problem& p) { return p.tensors.dlse.given(); }},
    {"cu_seqlens_q, cu_seqlens_k", "packed sequences, of any length, 0 too", kAll, kCpu,
     [](const Problem& p) { return p.packed_q() || p.packed_k(); }},
    {"seqlens_q, seqlens_k", "used lengths: what lies past them is never read into a result", kAll, kCpu,
     [](const Problem& p) { return p.tensors.seqlens_q.given() || p.tensors.seqlens_k.given(); }},
    {"block_table", "k and v in pages of any size", kAll, kNowhere, [](const Problem& p) { return p.paged(); }},
    {"deterministic", "the same bits for the same call, whatever the number of threads", kAll, kCpu,
     [](const Problem& p) { return p.deterministic; }},
};

constexpr TypeRole kTypeRoles[] = {
    {"q, k, v, out, dout, dq, dk, dv", "fp32, fp16 or bf16, one type for all"},
    {"softmax_lse, dlse, alibi_slopes, sink, dsink", "fp32"},
    {"bias, dbias", "fp32 or the type of q"},
    {"mask", "bool (one byte, 0 = hidden)"},
    {"cu_seqlens_q, cu_seqlens_k, seqlens_q, seqlens_k, block_table", "int32 or int64"},
};

constexpr double kMaxFloat = std::numeric_limits<float>::max(), kMinFloat = std::numeric_limits<float>::min();
bool at_least_one(double x) { return x >= 1; }

constexpr Limit kLimits[] = {
    {"heads_q", "at least 1", "a multiple of heads_kv", [](const Problem& p) { return double(p.heads_q); },
     at_least_one},
    {"heads_kv", "at least 1", "key/value heads", [](const Problem& p) { return double(p.heads_kv); }, at_least_one},
    {"head_dim", "at least 1", "D, of q and k", [](const Problem& p) { return double(p.head_dim); }, at_least_one},
    {"head_dim_v", "at least 1", "Dv, of v and out", [](const Problem& p) { return double(p.head_dim_v); },
     at_least_one},
    {"page_size", "at least 1", "rows of a page",
     [](const Problem& p) { return p.tensors.block_table.given() ? double(p.page_size) : 1.0; }, at_least_one},
    {"scale", "finite in fp32", "1/sqrt(D) where not given", [](const Problem& p) { return p.scale; },
     [](double x) { return std::abs(x) <= kMaxFloat; }},
    {"softcap", "0 (off) or positive, finite and normal in fp32", "c", [](const Problem& p) { return p.softcap; },
     [](double x) { return x == 0 || (x >= kMinFloat && x <= kMaxFloat); }},
    {"dropout", "in [0, 1)", "probability that a weight is dropped", [](const Problem& p) { return p.dropout; },
     [](double x) { return x >= 0 && x < 1; }},
    {"window_left", "-1 (unlimited) or more", "keys before the diagonal",
     [](const Problem& p) { return double(p.window_left); }, [](double x) { return x >= -1; }},
    {"window_right", "-1 (unlimited) or more", "keys behind the diagonal",
     [](const Problem& p) { return double(p.window_right); }, [](double x) { return x >= -1; }},
};

std::string device_names(DeviceSet set) {
  std::string text;
  for (const DeviceKind kind : kDevices) {
    if (contains(set, kind)) text += std::string(text.empty() ? "" : ", ") + to_string(kind);
  }
  return text.empty() ? "no" : text;
}

}  // namespace

std::span<const Feature> features() { return kFeatures; }
std::span<const TypeRole> type_roles() { return kTypeRoles; }
std::span<const Limit> limits() { return kLimits; }

Status check_limits(const Problem& problem) {
  for (const Limit& limit : kLimits) {
    const double value = limit.value(problem);
    if (!limit.holds(value))
      return Status::invalid(fmt::format("{}: {}; must be {}", limit.name, value, limit.allowed));
  }
  return {};
}

Status check_features(const Problem& problem, DeviceKind device) {
  for (const Feature& feature : kFeatures) {
    const DeviceSet devices = feature.devices(problem.direction);
    const bool there = device == DeviceKind::kAuto ? devices != 0 : contains(devices, device);
    if (there || !feature.used(problem)) continue;
    const DeviceSet other =
        feature.devices(problem.direction == Direction::kForward ? Direction::kBackward : Direction::kForward);
    return Status::unsupported(fmt::format(
        "{}: given to {} on {}; may be given to {}", feature.name, to_string(problem.direction),
        device == DeviceKind::kAuto ? "any device" : to_string(device),
        devices != 0 ? fmt::format("{} on {}", to_string(problem.direction), device_names(devices))
                     : fmt::format("{} alone, on {}", problem.direction == Direction::kForward ? "backward" : "forward",
                                   device_names(other))));
  }
  return {};
}

std::string support_table() {
  std::string text = "| option | what it is | forward | backward |\n|---|---|---|---|\n";
  for (const Feature& f : kFeatures) {
    text += fmt::format("| {} | {} | {} | {} |\n", f.name, f.description, device_names(f.forward),
                        device_names(f.backward));
  }
  text += "\n| tensors | types |\n|---|---|\n";
  for (const TypeRole& t : kTypeRoles) text += fmt::format("| {} | {} |\n", t.tensors, t.types);
  text += "\n| number | may be | what it is |\n|---|---|---|\n";
  for (const Limit& l : kLimits) text += fmt::format("| {} | {} | {} |\n", l.name, l.allowed, l.description);
  return text;
}

}  // namespace splitq
