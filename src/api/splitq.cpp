// The C++ interface: problem, plan, run; statuses become exceptions here.
#include <utility>

#include "api/raise.hpp"
#include "cpu/instruction_sets.hpp"
#include "cpu/run.hpp"
#include "plan/plan.hpp"
#include "problem/problem.hpp"

namespace splitq {

namespace detail {

struct PlanState {
  Problem problem;
  ExecutionPlan execution;
};

}  // namespace detail

namespace {

template <class T>
Status make_plan(const T& tensors, const Options& options, const Execution& execution, detail::PlanState* state) {
  Status status = make_problem(tensors, options, &state->problem);
  if (status.ok()) status = select(state->problem, execution, &state->execution);
  return status;
}

void execute(const detail::PlanState& state, const Tensors& tensors) {
  try {
    cpu::run(state.problem, tensors, state.execution.cpu);
  } catch (const std::bad_alloc&) {
    throw Error(StatusCode::kOutOfMemory,
                "workspace: " + std::to_string(state.execution.workspace_bytes) + " bytes are not to be had");
  }
}

template <class T>
void run_once(const T& tensors, const Options& options, const Execution& execution) {
  detail::PlanState state;
  raise_unless_ok(make_plan(tensors, options, execution, &state));
  const Tensors all = gather(tensors, options);
  raise_unless_ok(check_indices(state.problem, all));
  execute(state, all);
}

template <class T>
void run_planned(const detail::PlanState& state, const T& tensors, const Options& options) {
  Problem problem;
  raise_unless_ok(make_problem(tensors, options, &problem));
  if (problem != state.problem) {
    throw Error(StatusCode::kInvalidArgument, "tensors, options: another problem than the one planned\nplanned:\n" +
                                                  to_string(state.problem) + "given:\n" + to_string(problem));
  }
  const Tensors all = gather(tensors, options);
  raise_unless_ok(check_indices(problem, all));
  execute(state, all);
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

std::string Plan::backend() const { return "cpu/" + state_->execution.cpu.instruction_set; }

std::vector<BackendInfo> backends() {
  std::vector<BackendInfo> all;
  const std::string_view forced = cpu::forced_instruction_set();
  for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
    BackendInfo info;
    info.name = "cpu/" + std::string(set.name);
    info.available = set.available;
    info.chosen = set.available && (forced.empty() ? &set == &cpu::best_instruction_set() : set.name == forced);
    info.why = std::string(set.description) + (set.available ? "" : ": this processor has not got it");
    if (info.chosen) info.why += forced.empty() ? ": the first that this processor has" : ": SPLITQ_INSTRUCTION_SET";
    all.push_back(std::move(info));
  }
  return all;
}

const char* version() { return SPLITQ_VERSION; }

}  // namespace splitq
