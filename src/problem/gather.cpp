// From the public argument structs to one set of tensors.
#include <array>

#include "problem/problem.hpp"

namespace splitq {

TensorInfo info(const TensorView& view) {
  TensorInfo t{view.dtype, view.rank, {}, {}};
  if (!view.given()) t.dtype = {};
  // What lies behind the rank is nobody's: left at 0, so that equal tensors compare equal.
  for (int d = 0; d < view.rank && d < kMaxRank; ++d) t.shape[d] = view.shape[d], t.strides[d] = view.strides[d];
  return t;
}

TensorSet<TensorInfo> info(const Tensors& tensors) {
  TensorSet<TensorInfo> infos;
  std::array<TensorInfo*, 32> slots{};
  std::size_t count = 0;
  for_each_tensor(infos, [&](const char*, TensorInfo& t) { slots.at(count++) = &t; });
  count = 0;
  for_each_tensor(tensors, [&](const char*, const TensorView& t) { *slots.at(count++) = info(t); });
  return infos;
}

namespace {

/// What forward and backward are both given.
template <class T>
Tensors common(const T& tensors, const Options& options) {
  Tensors t;
  t.q = tensors.q;
  t.k = tensors.k;
  t.v = tensors.v;
  t.out = tensors.out;
  t.softmax_lse = tensors.softmax_lse;
  t.bias = options.bias;
  t.mask = options.mask;
  t.alibi_slopes = options.alibi_slopes;
  t.sink = options.sink;
  t.cu_seqlens_q = options.cu_seqlens_q;
  t.cu_seqlens_k = options.cu_seqlens_k;
  t.seqlens_q = options.seqlens_q;
  t.seqlens_k = options.seqlens_k;
  t.block_table = options.block_table;
  return t;
}

/// The stride of a dimension with one element, or of an empty tensor, leads nowhere and may be any number. 1 is one that a
/// backend can count in bytes, and makes equal problems compare equal.
Tensors with_plain_strides(Tensors tensors) {
  for_each_tensor(tensors, [](const char*, TensorView& t) {
    const bool empty = t.size() == 0;
    for (int d = 0; d < t.rank && d < kMaxRank; ++d) {
      if (empty || t.shape[d] == 1) t.strides[d] = 1;
    }
  });
  return tensors;
}

}  // namespace

Tensors gather(const ForwardTensors& tensors, const Options& options) {
  return with_plain_strides(common(tensors, options));
}

Tensors gather(const BackwardTensors& tensors, const Options& options) {
  Tensors t = common(tensors, options);
  t.dout = tensors.dout;
  t.dq = tensors.dq;
  t.dk = tensors.dk;
  t.dv = tensors.dv;
  t.dlse = tensors.dlse;
  t.dbias = tensors.dbias;
  t.dsink = tensors.dsink;
  return with_plain_strides(t);
}

}  // namespace splitq
