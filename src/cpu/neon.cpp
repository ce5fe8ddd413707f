// Armv8 NEON.
#include <hwy/detect_compiler_arch.h>
#if HWY_ARCH_ARM_A64
#define SPLITQ_ISA neon
#define HWY_BASELINE_TARGETS HWY_NEON
#define HWY_COMPILE_ONLY_STATIC
#include "cpu/simd/kernels-inl.hpp"
#endif
