// Rotary embedding, and new keys and values put behind a cache. splitq.hpp defines both.
#pragma once

#include "problem/status.hpp"
#include "splitq/splitq.hpp"

namespace splitq::kvcache {

/// Check everything, then write; nothing is written where a check fails.
Status apply_rotary(const TensorView& x, const TensorView& out, const Rotary& rotary, const TensorView& offsets);
Status append_kv(const AppendTensors& tensors);

}  // namespace splitq::kvcache
