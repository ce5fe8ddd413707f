#include "bench/openblas.hpp"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

namespace splitq::bench {
namespace {

constexpr const char* kLibrary = "libopenblas.so.0";
enum CblasOrder { kRowMajor = 101 };
enum CblasTranspose { kNoTrans = 111, kTrans = 112 };

const char* best_core() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return nullptr;
}

}  // namespace

void OpenBlas::choose_core(const std::string& core) {
  if (!core.empty()) setenv("OPENBLAS_CORETYPE", core.c_str(), 1);
  else if (const char* best = best_core()) setenv("OPENBLAS_CORETYPE", best, 0);
  // Idle threads spin 2^n cycles before they sleep; the default of 2^26 would run on into the next contestant's time.
  setenv("OPENBLAS_THREAD_TIMEOUT", "16", 0);
}

std::string OpenBlas::missing() {
  static const std::string reason = [] {
    // Asked in a child: loading starts threads and fixes the kernel.
    const pid_t child = fork();
    if (child == 0) _exit(dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL) ? 0 : 1);
    int status = 1;
    waitpid(child, &status, 0);
    return status == 0 ? std::string() : std::string(kLibrary) + " can't be loaded (Debian: libopenblas0-pthread)";
  }();
  return reason;
}

OpenBlas::OpenBlas() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  const auto symbol = [&](const char* name) {
    void* address = dlsym(library, name);
    if (!address) throw std::runtime_error(std::string(kLibrary) + " has no " + name);
    return address;
  };
  sgemm_ = reinterpret_cast<Sgemm>(symbol("cblas_sgemm"));
  set_num_threads_ = reinterpret_cast<void (*)(int)>(symbol("openblas_set_num_threads"));
  get_corename_ = reinterpret_cast<char* (*)()>(symbol("openblas_get_corename"));
}

OpenBlas& OpenBlas::get() {
  static OpenBlas blas;
  return blas;
}

std::string OpenBlas::core() const { return get_corename_(); }
void OpenBlas::set_threads(int threads) const { set_num_threads_(threads); }

void OpenBlas::sgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                     const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
                     std::int64_t ldc) const {
  sgemm_(kRowMajor, transpose_a ? kTrans : kNoTrans, transpose_b ? kTrans : kNoTrans, int(m), int(n), int(k), alpha, a,
         int(lda), b, int(ldb), beta, c, int(ldc));
}

}  // namespace splitq::bench
