// AVX-512 (F, VL, DQ, BW).
#include <hwy/detect_compiler_arch.h>
#if HWY_ARCH_X86
#define SPLITQ_ISA avx3
#define HWY_BASELINE_TARGETS HWY_AVX3
#define HWY_COMPILE_ONLY_STATIC
#include "cpu/simd/kernels-inl.hpp"
#endif
