#include "api/c_structs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace splitq::c_abi {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(StatusCode::kInvalidArgument, message); }

/// The size of the struct when it was first published: no caller has a smaller one. A struct that grows keeps its
/// first size, in a specialisation: the offset of the first new member.
template <class T>
constexpr std::size_t kFirstSize = sizeof(T);
template <>
constexpr std::size_t kFirstSize<splitq_execution> = offsetof(splitq_execution, stream);

template <class T>
void check_struct_size(const char* name, std::size_t size) {
  constexpr std::size_t kLargest = 1 << 16;  // beyond every future struct: a size nobody set
  if (size < kFirstSize<T> || size > kLargest) {
    refuse(fmt::format("{}.struct_size: {}; must be at least {}: start from the struct's _INIT", name, size,
                       kFirstSize<T>));
  }
}

/// The caller's struct in this library's version of it: what an older caller doesn't know keeps its default, what a
/// newer one knows beyond this library must be zero.
template <class T>
T read(const char* name, const T* from, const T& defaults) {
  if (from == nullptr) return defaults;
  check_struct_size<T>(name, from->struct_size);
  const std::size_t size = from->struct_size;
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      refuse(fmt::format("{}: byte {} set; must be 0, as this library ({}) knows {} bytes of the struct", name, i,
                         version(), sizeof(T)));
    }
  }
  T to = defaults;
  std::memcpy(&to, from, std::min(size, sizeof(T)));
  return to;
}

template <class T>
void check_given(const char* name, const T* from) {
  if (from == nullptr) refuse(fmt::format("{}: NULL; must point to a struct", name));
}

bool flag(const char* name, std::int32_t value) {
  if (value != 0 && value != 1) refuse(fmt::format("{}: {}; must be 0 or 1", name, value));
  return value == 1;
}

template <class Enum>
Enum choice(const char* name, std::int32_t value, Enum last) {
  if (value < 0 || value > static_cast<std::int32_t>(last)) {
    refuse(fmt::format("{}: {}; must be from 0 to {}", name, value, static_cast<std::int32_t>(last)));
  }
  return static_cast<Enum>(value);
}

void check_reserved(const char* name, std::int32_t value) {
  if (value != 0) refuse(fmt::format("{}.reserved: {}; must be 0", name, value));
}

}  // namespace

TensorView tensor(const char* name, const splitq_tensor* from) {
  if (from == nullptr) return {};
  const splitq_tensor t = read(name, from, splitq_tensor SPLITQ_TENSOR_INIT);
  TensorView view;
  view.data = t.data;
  view.dtype = static_cast<DType>(t.dtype);  // checked with the view
  view.rank = t.rank;
  if (t.rank == 0)
    refuse(fmt::format("{}: rank 0; must be from 1 to {}, or the pointer to the tensor NULL", name, kMaxRank));
  std::copy_n(t.shape, kMaxRank, view.shape.begin());
  std::copy_n(t.strides, kMaxRank, view.strides.begin());
  view.device = {static_cast<DeviceKind>(t.device_kind), t.device_index};
  return view;
}

Options options(const splitq_options* from) {
  const splitq_options c = read("options", from, splitq_options SPLITQ_OPTIONS_INIT);
  check_reserved("options", c.reserved);
  Options o;
  if (flag("has_scale", c.has_scale)) o.scale = c.scale;
  o.causal = flag("causal", c.causal);
  o.window_left = c.window_left;
  o.window_right = c.window_right;
  o.softcap = c.softcap;
  o.dropout = c.dropout;
  o.seed = c.seed;
  o.offset = c.offset;
  o.deterministic = flag("deterministic", c.deterministic);
  o.bias = tensor("bias", c.bias);
  o.mask = tensor("mask", c.mask);
  o.alibi_slopes = tensor("alibi_slopes", c.alibi_slopes);
  o.sink = tensor("sink", c.sink);
  o.cu_seqlens_q = tensor("cu_seqlens_q", c.cu_seqlens_q);
  o.cu_seqlens_k = tensor("cu_seqlens_k", c.cu_seqlens_k);
  o.seqlens_q = tensor("seqlens_q", c.seqlens_q);
  o.seqlens_k = tensor("seqlens_k", c.seqlens_k);
  o.block_table = tensor("block_table", c.block_table);
  return o;
}

Execution execution(const splitq_execution* from) {
  const splitq_execution c = read("execution", from, splitq_execution SPLITQ_EXECUTION_INIT);
  check_reserved("execution", c.reserved);
  Execution e;
  e.device = {choice("device_kind", c.device_kind, DeviceKind::kEmulator), c.device_index};
  e.threads = c.threads;
  if (c.instruction_set != nullptr) e.instruction_set = c.instruction_set;
  e.schedule.rescale = choice("rescale", c.rescale, Schedule::Rescale::kEveryStep);
  e.schedule.parallel = choice("parallel", c.parallel, Schedule::Parallel::kBatchHeads);
  e.num_splits = c.num_splits;
  e.stream = c.stream;
  return e;
}

ForwardTensors forward_tensors(const splitq_forward_tensors* from) {
  check_given("tensors", from);
  const splitq_forward_tensors c = read("tensors", from, splitq_forward_tensors SPLITQ_FORWARD_TENSORS_INIT);
  return {tensor("q", c.q), tensor("k", c.k), tensor("v", c.v), tensor("out", c.out),
          tensor("softmax_lse", c.softmax_lse)};
}

BackwardTensors backward_tensors(const splitq_backward_tensors* from) {
  check_given("tensors", from);
  const splitq_backward_tensors c = read("tensors", from, splitq_backward_tensors SPLITQ_BACKWARD_TENSORS_INIT);
  BackwardTensors t;
  t.dout = tensor("dout", c.dout);
  t.q = tensor("q", c.q);
  t.k = tensor("k", c.k);
  t.v = tensor("v", c.v);
  t.out = tensor("out", c.out);
  t.softmax_lse = tensor("softmax_lse", c.softmax_lse);
  t.dq = tensor("dq", c.dq);
  t.dk = tensor("dk", c.dk);
  t.dv = tensor("dv", c.dv);
  t.dlse = tensor("dlse", c.dlse);
  t.dbias = tensor("dbias", c.dbias);
  t.dsink = tensor("dsink", c.dsink);
  return t;
}

Rotary rotary(const splitq_rotary* from) {
  const splitq_rotary c = read("rotary", from, splitq_rotary SPLITQ_ROTARY_INIT);
  check_reserved("rotary", c.reserved);
  return {tensor("cos", c.cos), tensor("sin", c.sin), flag("interleaved", c.interleaved)};
}

AppendTensors append_tensors(const splitq_append_tensors* from) {
  check_given("tensors", from);
  const splitq_append_tensors c = read("tensors", from, splitq_append_tensors SPLITQ_APPEND_TENSORS_INIT);
  return {tensor("k_new", c.k_new),
          tensor("v_new", c.v_new),
          tensor("k_cache", c.k_cache),
          tensor("v_cache", c.v_cache),
          tensor("seqlens_k", c.seqlens_k),
          tensor("block_table", c.block_table),
          rotary(c.rotary)};
}

void write_backend(const BackendInfo& from, splitq_backend_info* to) {
  check_given("info", to);
  check_struct_size<splitq_backend_info>("info", to->struct_size);
  to->name = from.name.c_str();
  to->why = from.why.c_str();
  to->available = from.available ? 1 : 0;
  to->chosen = from.chosen ? 1 : 0;
}

}  // namespace splitq::c_abi
