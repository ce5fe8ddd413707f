// The two worlds of device code. Under NVRTC an instruction is inline PTX; elsewhere it is a declaration, and
// src/emulator defines it. Nothing else in kernels/ tells the worlds apart.
//
//   SPLITQ_KERNEL(threads, min_blocks)   a kernel: block size, blocks that an SM must hold
//   SPLITQ_DEVICE                        a function of device code
//   SPLITQ_INSTRUCTION                   one hardware instruction (kernels/device alone)
//   SPLITQ_PTX({...});                   its body
#pragma once

#if defined(__CUDACC_RTC__) || defined(__CUDA_ARCH__)
#define SPLITQ_KERNEL(threads, min_blocks) __global__ __launch_bounds__(threads, min_blocks)
#define SPLITQ_DEVICE __device__ __forceinline__
#define SPLITQ_INSTRUCTION __device__ __forceinline__
#define SPLITQ_PTX(...) __VA_ARGS__
#define SPLITQ_UNROLL _Pragma("unroll")
#define SPLITQ_NO_UNROLL _Pragma("unroll 1")
#else
#define SPLITQ_EMULATOR 1
#define SPLITQ_KERNEL(threads, min_blocks) inline
#define SPLITQ_DEVICE inline
#define SPLITQ_INSTRUCTION
#define SPLITQ_PTX(...)
#define SPLITQ_UNROLL
#define SPLITQ_NO_UNROLL
#endif

namespace splitq::device {

/// Compute capability times ten: 750, 800, ... The emulator is an sm_80.
#if defined(__CUDA_ARCH__)
inline constexpr int kArchitecture = __CUDA_ARCH__;
#else
inline constexpr int kArchitecture = 800;
#endif

inline constexpr bool kHasCpAsync = kArchitecture >= 800;
inline constexpr bool kHasBf16 = kArchitecture >= 800;

}  // namespace splitq::device
