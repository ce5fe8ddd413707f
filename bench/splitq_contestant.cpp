// The library itself, planned once and run many times.
#include <optional>

#include "bench/contestant.hpp"

namespace splitq::bench {
namespace {

class SplitqContestant final : public NativeContestant {
 public:
  SplitqContestant(const Settings& settings, Schedule schedule, std::string name) : name_(std::move(name)) {
    execution_.device.kind = DeviceKind::kCpu;
    execution_.threads = settings.threads;
    execution_.schedule = schedule;
  }

  std::string name() const override { return name_; }

  void finish() override { plan_.reset(); }

 private:
  static ForwardTensors forward_of(const Tensors& t) { return {t.q, t.k, t.v, t.out, t.softmax_lse}; }
  static BackwardTensors backward_of(const Tensors& t) {
    BackwardTensors tensors{t.dout, t.q, t.k, t.v, t.out, t.softmax_lse, t.dq, t.dk, t.dv};
    return tensors;
  }

  void setup(Workload& workload) override {
    options_ = options_of(workload.shape);
    backward_ = workload.shape.backward;
    const Tensors& tensors = workload.copies.front();
    plan_ = plan(forward_of(tensors), options_, execution_);
    if (!backward_) return;
    plan_->run(forward_of(tensors), options_);  // out and softmax_lse, which backward reads
    plan_ = plan(backward_of(tensors), options_, execution_);
  }

  void call(Tensors& tensors) override {
    if (backward_)
      plan_->run(backward_of(tensors), options_);
    else
      plan_->run(forward_of(tensors), options_);
  }

  std::string name_;
  Execution execution_;
  Options options_;
  bool backward_ = false;
  std::optional<Plan> plan_;
};

}  // namespace

std::unique_ptr<Contestant> make_splitq(const Settings& settings, Schedule schedule, std::string name) {
  return std::make_unique<SplitqContestant>(settings, schedule, std::move(name));
}

}  // namespace splitq::bench
