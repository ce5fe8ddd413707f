// SSE 4.2.
#include <hwy/detect_compiler_arch.h>
#if HWY_ARCH_X86
#define SPLITQ_ISA sse4
#define HWY_BASELINE_TARGETS HWY_SSE4
#define HWY_COMPILE_ONLY_STATIC
#include "cpu/simd/kernels-inl.hpp"
#endif
