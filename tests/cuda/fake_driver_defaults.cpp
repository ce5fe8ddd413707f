// Every function of the driver API that splitq calls, doing nothing with success; fake_driver.cpp says otherwise of some.
#include "cuda/driver.hpp"

namespace splitq::cuda {

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define SPLITQ_DEFAULT(member, name, parameters)                      \
  __attribute__((weak)) Result default_##member parameters asm(name); \
  Result default_##member parameters { return 0; }
SPLITQ_DRIVER_FUNCTIONS(SPLITQ_DEFAULT)

}  // namespace splitq::cuda
