// No vector instructions: any processor.
#define SPLITQ_ISA scalar
#define HWY_BASELINE_TARGETS HWY_SCALAR
#define HWY_COMPILE_ONLY_STATIC
#include "cpu/simd/kernels-inl.hpp"
