// Runs a plan on the CPU.
#pragma once

#include "plan/plan.hpp"
#include "problem/problem.hpp"

namespace splitq::cpu {

/// The tensors fit the problem (make_problem, check_indices), the plan comes from select(). Throws std::bad_alloc alone.
void run(const Problem& problem, const Tensors& tensors, const CpuPlan& plan);

/// Extra memory of a run, an upper bound.
std::size_t workspace_bytes(const Problem& problem, const CpuPlan& plan);

}  // namespace splitq::cpu
