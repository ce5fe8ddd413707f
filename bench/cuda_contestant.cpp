// The library on a CUDA device, planned once and run many times; events around each launch take the time.
#include <optional>

#include "bench/contestant.hpp"
#include "gpu/device_tensors.hpp"

namespace splitq::bench {
namespace {

void require(const Status& status) {
  if (!status.ok()) throw Error(status.code, status.message);
}

class CudaContestant final : public Contestant {
 public:
  explicit CudaContestant(const Settings& settings) : device_(settings.device) {
    require(cuda::device(device_.index, &cuda_));
    const cuda::CudaDevice::Scope scope(*cuda_);
    require(scope.status());
    for (cuda::Event* event : {&begin_, &end_}) check(cuda_->driver().event_create(event, 0), "cuEventCreate");
  }
  CudaContestant(const CudaContestant&) = delete;
  CudaContestant& operator=(const CudaContestant&) = delete;
  ~CudaContestant() override {
    const cuda::CudaDevice::Scope scope(*cuda_);
    for (const cuda::Event event : {begin_, end_}) cuda_->driver().event_destroy(event);
  }

  std::string name() const override { return "splitq"; }

  void prepare(Workload& workload) override {
    const Tensors& t = workload.copies.front();
    tensors_ = {t.q, t.k, t.v, t.out, t.softmax_lse};
    options_ = options_of(workload.shape);
    copies_.emplace();
    require(gpu::DeviceTensors::open(device_.index, &*copies_));
    for (TensorView* view : {&tensors_.q, &tensors_.k, &tensors_.v, &tensors_.out, &tensors_.softmax_lse}) {
      require(copies_->upload("bench", view));
    }
    Execution execution;
    execution.device = device_;
    plan_ = plan(tensors_, options_, execution);
  }

  double time(int calls) override {
    const cuda::CudaDevice::Scope scope(*cuda_);
    const cuda::Driver& driver = cuda_->driver();
    double seconds = 0;
    for (int i = 0; i < calls; ++i) {
      check(driver.event_record(begin_, nullptr), "cuEventRecord");
      plan_->run(tensors_, options_);
      check(driver.event_record(end_, nullptr), "cuEventRecord");
      check(driver.event_synchronize(end_), "cuEventSynchronize");
      float milliseconds = 0;
      check(driver.event_elapsed_time(&milliseconds, begin_, end_), "cuEventElapsedTime");
      seconds += 1e-3 * double(milliseconds);
    }
    return seconds;
  }

  void fetch() override { require(copies_->download()); }
  void finish() override { plan_.reset(), copies_.reset(); }
  double own_extra_bytes() const override { return double(plan_->workspace_bytes()); }

 private:
  void check(cuda::Result result, const char* call) const { require(cuda::check(cuda_->driver(), result, call)); }

  Device device_;
  cuda::CudaDevice* cuda_ = nullptr;
  cuda::Event begin_ = nullptr, end_ = nullptr;
  std::optional<gpu::DeviceTensors> copies_;
  ForwardTensors tensors_;
  Options options_;
  std::optional<Plan> plan_;
};

}  // namespace

std::unique_ptr<Contestant> make_splitq_cuda(const Settings& settings) {
  return std::make_unique<CudaContestant>(settings);
}

}  // namespace splitq::bench
