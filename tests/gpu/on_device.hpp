// A case's call on CUDA device 0: its tensors are copied there, and all of them back.
#pragma once

#include <gtest/gtest.h>

#include "cuda/device.hpp"
#include "gpu/device_tensors.hpp"
#include "support/run_case.hpp"

namespace splitq::testing {

inline void expect_ok(const Status& status) {
  if (!status.ok()) throw Error(status.code, status.message);
}

/// The tensors of a call on the device.
struct DeviceCall {
  explicit DeviceCall(const CallTensors& call) : tensors(call.forward()), options(call.options) {
    expect_ok(gpu::DeviceTensors::open(0, &copies));
    ForwardTensors& t = tensors;
    Options& o = options;
    for (TensorView* view : {&t.q, &t.k, &t.v, &t.out, &t.softmax_lse, &o.bias, &o.mask, &o.alibi_slopes, &o.sink,
                             &o.cu_seqlens_q, &o.cu_seqlens_k, &o.seqlens_q, &o.seqlens_k, &o.block_table}) {
      expect_ok(copies.upload("tensor", view));
    }
  }
  void run(const Execution& execution) const {
    const ForwardTensors& t = tensors;
    forward(t.q, t.k, t.v, t.out, options, t.softmax_lse, execution);
  }

  gpu::DeviceTensors copies;
  ForwardTensors tensors;
  Options options;
};

inline void call_on_device(const AttentionCase& c, CallTensors& call) {
  const DeviceCall there(call);
  there.run(c.execution);
  expect_ok(there.copies.download());
}

/// Skipped, with the reason, where there is no device.
class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    const cuda::Driver* driver = nullptr;
    if (const Status found = cuda::driver(&driver); !found.ok()) GTEST_SKIP() << found.message;
    int count = 0;
    expect_ok(cuda::device_count(*driver, &count));
    if (count == 0) GTEST_SKIP() << "there is no CUDA device";
  }
};

}  // namespace splitq::testing
