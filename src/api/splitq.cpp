// The C++ interface: problem, plan, run; statuses become exceptions here.
#include <new>
#include <tuple>
#include <utility>

#include "api/raise.hpp"
#include "cpu/run.hpp"
#include "gpu/run_cuda.hpp"
#include "gpu/run_emulator.hpp"
#include "plan/plan.hpp"
#include "problem/problem.hpp"
#include "problem/views.hpp"

namespace splitq {

namespace detail {

struct PlanState {
  Problem problem;
  ExecutionPlan execution;
  Options options;  // as they were given
  void* stream = nullptr;
  gpu::CudaForward cuda{};  // prepared where the plan is for CUDA
};

}  // namespace detail

namespace {

template <class T>
Status make_plan(const T& tensors, const Options& options, const Execution& execution, detail::PlanState* state) {
  SPLITQ_TRY(make_problem(tensors, options, &state->problem));
  state->options = options, state->stream = execution.stream;
  return select(state->problem, gather(tensors, options), execution, &state->execution);
}

/// What is done once for all runs of a plan.
Status prepare(const Tensors& tensors, detail::PlanState* state) {
  const Device device = state->execution.device;
  if (device.kind != DeviceKind::kCuda) return {};
  return gpu::CudaForward::prepare(state->problem, tensors, device.index, &state->cuda);
}

Status execute(const detail::PlanState& state, const Tensors& tensors) {
  switch (state.execution.device.kind) {
    case DeviceKind::kCuda:
      return state.cuda.run(state.problem, tensors, state.stream);
    case DeviceKind::kEmulator:
      return gpu::run_emulator(state.problem, tensors);
    case DeviceKind::kAuto:
    case DeviceKind::kCpu:
      break;
  }
  try {
    cpu::run(state.problem, tensors, state.execution.cpu);
    return {};
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory,
            "workspace: " + std::to_string(state.execution.workspace_bytes) + " bytes are not to be had"};
  }
}

template <class T>
void run_once(const T& tensors, const Options& options, const Execution& execution) {
  detail::PlanState state;
  raise_unless_ok(make_plan(tensors, options, execution, &state));
  const Tensors all = gather(tensors, options);
  raise_unless_ok(check_indices(state.problem, all));
  const Device device = state.execution.device;
  if (device.kind == DeviceKind::kCuda) raise_unless_ok(gpu::check_pointers(all, device.index));
  raise_unless_ok(prepare(all, &state));
  raise_unless_ok(execute(state, all));
}

/// All of the options that are no tensors.
bool same_numbers(const Options& a, const Options& b) {
  const auto numbers = [](const Options& o) {
    return std::tuple(o.scale, o.causal, o.window_left, o.window_right, o.softcap, o.dropout, o.seed, o.offset,
                      o.deterministic);
  };
  return numbers(a) == numbers(b);
}

/// That a call is the one that was planned, though its memory may be another.
template <class T>
Status check_planned(const detail::PlanState& state, const T& tensors, const Options& options, const Tensors& all) {
  // What is new in almost every call are addresses alone.
  if (same_numbers(options, state.options) && info(all) == state.problem.tensors &&
      resolve_device(all.q.device) == state.problem.device) {
    return check_views(state.problem.direction, all);
  }
  Problem problem;
  SPLITQ_TRY(make_problem(tensors, options, &problem));
  if (problem == state.problem) return {};
  return Status::invalid("tensors, options: another problem than the one planned\nplanned:\n" +
                         to_string(state.problem) + "given:\n" + to_string(problem));
}

template <class T>
void run_planned(const detail::PlanState& state, const T& tensors, const Options& options) {
  const Tensors all = gather(tensors, options);
  raise_unless_ok(check_planned(state, tensors, options, all));
  raise_unless_ok(check_indices(state.problem, all));
  raise_unless_ok(execute(state, all));
}

template <class T>
Support support_of(const T& tensors, const Options& options, const Execution& execution) {
  detail::PlanState state;
  Status status = make_plan(tensors, options, execution, &state);
  if (status.ok()) status = check_indices(state.problem, gather(tensors, options));
  return {status.code, status.message};
}

template <class T>
std::shared_ptr<const detail::PlanState> planned(const T& tensors, const Options& options, const Execution& execution) {
  auto state = std::make_shared<detail::PlanState>();
  raise_unless_ok(make_plan(tensors, options, execution, state.get()));
  raise_unless_ok(prepare(gather(tensors, options), state.get()));
  return state;
}

}  // namespace

void forward(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
             const Options& options, const TensorView& softmax_lse, const Execution& execution) {
  run_once(ForwardTensors{q, k, v, out, softmax_lse}, options, execution);
}

void backward(const BackwardTensors& tensors, const Options& options, const Execution& execution) {
  run_once(tensors, options, execution);
}

Support is_supported(const ForwardTensors& tensors, const Options& options, const Execution& execution) {
  return support_of(tensors, options, execution);
}

Support is_supported(const BackwardTensors& tensors, const Options& options, const Execution& execution) {
  return support_of(tensors, options, execution);
}

Plan plan(const ForwardTensors& tensors, const Options& options, const Execution& execution) {
  return Plan(planned(tensors, options, execution));
}

Plan plan(const BackwardTensors& tensors, const Options& options, const Execution& execution) {
  return Plan(planned(tensors, options, execution));
}

void Plan::run(const ForwardTensors& tensors, const Options& options) const { run_planned(*state_, tensors, options); }

void Plan::run(const BackwardTensors& tensors, const Options& options) const { run_planned(*state_, tensors, options); }

std::string Plan::describe() const { return to_string(state_->problem) + to_string(state_->execution); }

std::size_t Plan::workspace_bytes() const { return state_->execution.workspace_bytes; }

std::string Plan::backend() const { return backend_name(state_->execution); }

const char* version() { return SPLITQ_VERSION; }

}  // namespace splitq
