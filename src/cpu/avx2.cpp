// AVX2 with FMA and F16C.
#include <hwy/detect_compiler_arch.h>
#if HWY_ARCH_X86
#define SPLITQ_ISA avx2
#define HWY_BASELINE_TARGETS HWY_AVX2
#define HWY_COMPILE_ONLY_STATIC
#include "cpu/simd/kernels-inl.hpp"
#endif
