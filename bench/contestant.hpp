// Who is measured: one way to compute a case, behind one interface.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "bench/case.hpp"

namespace splitq::bench {

struct Settings {
  int threads = 1;
  std::string python;  // of the PyTorch helper; "" leaves it out
  Device device{};     // cpu or cuda
};

class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual std::string name() const = 0;
  /// Whether it has a row in the case's table at all.
  virtual bool enters(const Case&) const { return true; }
  /// Why it can't take part; "" where it can.
  virtual std::string refusal(const Case&) const { return {}; }
  /// Everything that is not timed. The workload outlives all calls.
  virtual void prepare(Workload& workload) = 0;
  /// Seconds that so many calls took, each on the next of the workload's copies.
  virtual double time(int calls) = 0;
  /// Brings the results of the last call on the first copy into its tensors.
  virtual void fetch() {}
  /// Frees what prepare() made.
  virtual void finish() = 0;
  /// Peak bytes beyond inputs and results, where it measures them itself; else they are measured from outside.
  virtual double own_extra_bytes() const { return -1; }
};

/// One that runs in this process.
class NativeContestant : public Contestant {
 public:
  double time(int calls) final {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call(workload_->copies[next_++ % workload_->copies.size()]);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  void prepare(Workload& workload) final { workload_ = &workload, next_ = 0, setup(workload); }

 protected:
  virtual void setup(Workload& workload) = 0;
  virtual void call(Tensors& tensors) = 0;

 private:
  Workload* workload_ = nullptr;
  std::size_t next_ = 0;
};

/// What the materialised backward takes from forward: P itself, of every head, or out and softmax_lse alone, as splitq's
/// does, from which it computes P again.
enum class Kept { kP, kLse };
std::unique_ptr<Contestant> make_materialised(const Settings& settings, Kept kept);
/// On a CUDA device. Throws splitq::Error where there is none of that number.
std::unique_ptr<Contestant> make_splitq_cuda(const Settings& settings);
std::unique_ptr<Contestant> make_splitq(const Settings& settings, Schedule schedule, std::string name);
/// Throws std::runtime_error with the reason where the Python has no usable torch.
std::unique_ptr<Contestant> make_torch(const Settings& settings);

/// What the machine can do at best, measured beside the contestants: SGEMM 2048^3 or, for decoding, a streaming read.
class Yardstick {
 public:
  virtual ~Yardstick() = default;
  virtual std::string name() const = 0;
  /// GFLOP/s or GB/s of one run.
  virtual double rate() = 0;
};
std::unique_ptr<Yardstick> make_gemm_yardstick(int threads);
std::unique_ptr<Yardstick> make_read_yardstick(int threads);
/// torch.matmul 8192^3 in bf16 on the GPU of a contestant from make_torch(), which outlives it.
std::unique_ptr<Yardstick> make_matmul_yardstick(Contestant& torch);

}  // namespace splitq::bench
