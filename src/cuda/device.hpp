// A GPU as splitq uses it: its properties, its primary context (the one of the CUDA runtime and of every framework on
// it), and the kernels loaded on it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "cuda/driver.hpp"
#include "cuda/kernel_cache.hpp"
#include "cuda/kernel_spec.hpp"
#include "problem/status.hpp"

namespace splitq::cuda {

struct DeviceProperties {
  std::string name;
  int compute_capability = 0;  // 10 * major + minor
  int multiprocessors = 0;
  std::size_t shared_bytes_per_block = 0;  // that a kernel can ask for
  std::size_t memory_bytes = 0;
  bool memory_pools = false;  // allocations in the order of a stream
};

struct Grid {
  unsigned x = 1, y = 1, z = 1;
};

/// A kernel ready to be launched on one device.
struct LoadedKernel {
  Function function = nullptr;
  unsigned threads = 0;
  unsigned shared_bytes = 0;
  std::shared_ptr<const CompiledKernel> compiled;
};

class CudaDevice {
 public:
  /// Prefer device() below; this one is for a driver and a cache of one's own.
  static Status open(const Driver& driver, int index, KernelCache& cache, std::unique_ptr<CudaDevice>* device);

  int index() const { return index_; }
  const Driver& driver() const { return driver_; }
  const DeviceProperties& properties() const { return properties_; }

  /// Compiles (or finds) and loads on first use; the pointer stays good. Not inside the capture of a CUDA graph:
  /// ask for the kernel before.
  Status load(const KernelSpec& spec, const LoadedKernel** kernel);

  /// Enqueues, and does nothing else: no allocation, no synchronisation. `params` is the kernel's one parameter.
  template <class Params>
  Status launch(const LoadedKernel& kernel, Grid grid, const Params& params, Stream stream) const {
    return launch_raw(kernel, grid, &params, stream);
  }

  /// Makes the device's context current on this thread for as long as it lives.
  class Scope {
   public:
    explicit Scope(const CudaDevice& device);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    const Status& status() const { return status_; }

   private:
    const Driver& driver_;
    bool pushed_ = false;
    Status status_;
  };

  /// That the pointer is memory which this device can read. `name` is the argument's.
  Status check_pointer(const void* pointer, const char* name) const;

 private:
  CudaDevice(const Driver& driver, int index, KernelCache& cache) : driver_(driver), index_(index), cache_(cache) {}
  Status launch_raw(const LoadedKernel& kernel, Grid grid, const void* params, Stream stream) const;
  Status load_module(const KernelSpec& spec, LoadedKernel* kernel) const;

  const Driver& driver_;
  int index_;
  KernelCache& cache_;
  Context context_ = nullptr;
  DeviceProperties properties_;
  std::mutex mutex_;  // of kernels_
  std::unordered_map<KernelSpec, std::unique_ptr<LoadedKernel>> kernels_;
};

Status device_count(const Driver& driver, int* count);

/// Of a device that exists. Makes no context: cheap, and takes no memory there.
Status read_properties(const Driver& driver, int index, DeviceProperties* properties);

/// This process's device of that index, opened on first use; stays open.
Status device(int index, CudaDevice** device);

}  // namespace splitq::cuda
