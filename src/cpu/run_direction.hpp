// The two directions, behind cpu::run().
#pragma once

#include "cpu/kernels.hpp"

namespace splitq::cpu {

void run_forward(Call& call, const Kernels& kernels);
void run_backward(Call& call, const Kernels& kernels);

}  // namespace splitq::cpu
