#include "cuda/variants.hpp"

namespace splitq::cuda {

// No kernel family is in kernels/ yet; each adds its own here.
std::vector<KernelSpec> variants(const std::string&) { return {}; }

}  // namespace splitq::cuda
