// A kernel for the tests of the run-time: out[i] = factor * in[i].
#pragma once

namespace test {

struct Config {
  int factor = 1;
  bool spill = false;  // more live values than a thread has registers
};

struct Params {
  const float* in;
  float* out;
  int size;
};

constexpr int twice(int x) { return 2 * x; }

template <Config c>
__global__ __launch_bounds__(256) void scale(Params p) {
  extern __shared__ float staged[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  staged[threadIdx.x] = i < p.size ? p.in[i] : 0.0f;
  __syncthreads();
  float x = staged[threadIdx.x] * (twice(c.factor) / 2);
  if constexpr (c.spill) {
    float live[300];
    for (int j = 0; j < 300; ++j) live[j] = p.in[j * threadIdx.x];
    for (int round = 0; round < p.size; ++round) {
      for (int j = 0; j < 300; ++j) live[j] = live[j] * live[(j + 1) % 300] + p.in[round + j];
    }
    for (int j = 0; j < 300; ++j) x += live[j];
  }
  if (i < p.size) p.out[i] = x;
}

}  // namespace test
