// From the structs of splitq.h to those of splitq.hpp. Throws splitq::Error.
#pragma once

#include "splitq/splitq.h"
#include "splitq/splitq.hpp"

namespace splitq::c_abi {

TensorView tensor(const char* name, const splitq_tensor* from);
Options options(const splitq_options* from);
Execution execution(const splitq_execution* from);
ForwardTensors forward_tensors(const splitq_forward_tensors* from);
BackwardTensors backward_tensors(const splitq_backward_tensors* from);
Rotary rotary(const splitq_rotary* from);
AppendTensors append_tensors(const splitq_append_tensors* from);

/// The part of a struct that the caller knows is filled in; its size stays what the caller said.
void write_backend(const BackendInfo& from, splitq_backend_info* to);

}  // namespace splitq::c_abi
