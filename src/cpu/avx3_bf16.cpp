// AVX-512 with its bf16 dot product (vdpbf16ps).
#include <hwy/detect_compiler_arch.h>
#if HWY_ARCH_X86
#define SPLITQ_ISA avx3_bf16
#define SPLITQ_NATIVE_BF16_DOT
#define HWY_BASELINE_TARGETS HWY_AVX3
#define HWY_COMPILE_ONLY_STATIC
#include "cpu/simd/kernels-inl.hpp"
#endif
