// The KV cache functions of splitq.hpp: statuses become exceptions.
#include "kvcache/kvcache.hpp"

#include "api/raise.hpp"

namespace splitq {
void apply_rotary(const TensorView& x, const TensorView& out, const Rotary& rotary, const TensorView& offsets) {
  raise_unless_ok(kvcache::apply_rotary(x, out, rotary, offsets));
}

void append_kv(const AppendTensors& tensors) { raise_unless_ok(kvcache::append_kv(tensors)); }

}  // namespace splitq
