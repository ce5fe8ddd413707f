// A libcuda.so.1 without a GPU: answers as it is told and remembers what it was asked, so that every path of the
// run-time is walked on any machine.
#pragma once

#include <vector>

#include "cuda/driver.hpp"

namespace splitq::cuda {

struct FakeDriver {
  int version = 13000;
  Result init = 0, alloc = 0, module_load = 0, launch = 0;
  int devices = 2;
  int compute_capability = 80;
  int shared_bytes = 163 << 10;
  bool memory_pools = true;

  // What happened.
  Context current = nullptr;
  int pushes = 0, pops = 0;
  int modules = 0;
  int dynamic_shared_bytes = 0;  // that was asked for with cuFuncSetAttribute
  int live_allocations = 0, allocations = 0;
  int waits = 0;   // of the host for the device
  int copies = 0;  // between host and device
  struct Launch {
    Function function;
    unsigned grid[3], block, shared_bytes;
    Stream stream;
    Context context;
    const void* params;
  };
  std::vector<Launch> launches;
};

}  // namespace splitq::cuda

/// Exported by the fake library.
extern "C" splitq::cuda::FakeDriver* splitq_fake_driver();
