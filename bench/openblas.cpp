#include "bench/openblas.hpp"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <vector>

namespace splitq::bench {
namespace {

constexpr const char* kLibrary = "libopenblas.so.0";
constexpr const char* kCoreVariable = "OPENBLAS_CORETYPE";
enum CblasOrder { kRowMajor = 101 };
enum CblasTranspose { kNoTrans = 111, kTrans = 112 };

/// OpenBLAS's own choice ("") and the kernels that fit the processor's instruction sets.
std::vector<const char*> candidate_cores() {
  std::vector<const char*> cores = {""};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) cores.push_back("Haswell");
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    cores.push_back("SkylakeX");
#endif
  return cores;
}

void set_core(const char* core) {
  if (*core) setenv(kCoreVariable, core, 1);
}

/// Seconds of the fastest of a few products with that kernel, in a child process; infinite where it fails.
double seconds_with_core(const char* core, int threads) {
  constexpr std::int64_t kSize = 1024;
  constexpr int kTrials = 8;
  double best = std::numeric_limits<double>::infinity();
  int ends[2];
  if (pipe(ends) != 0) return best;
  const pid_t child = fork();
  if (child == 0) {
    set_core(core);
    try {
      const OpenBlas& blas = OpenBlas::get();
      blas.set_threads(threads);
      const std::vector<float> a(kSize * kSize, 1.0f), b(kSize * kSize, 1.0f);
      std::vector<float> c(kSize * kSize);
      for (int i = 0; i < kTrials; ++i) {
        const auto start = std::chrono::steady_clock::now();
        blas.sgemm(false, false, kSize, kSize, kSize, 1.0f, a.data(), kSize, b.data(), kSize, 0.0f, c.data(), kSize);
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      }
    } catch (const std::exception&) {  // the infinite time says it
    }
    _exit(write(ends[1], &best, sizeof best) == sizeof best ? 0 : 1);
  }
  close(ends[1]);
  double seconds;
  if (child > 0 && read(ends[0], &seconds, sizeof seconds) == sizeof seconds) best = seconds;
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return best;
}

}  // namespace

void OpenBlas::choose_core(const std::string& core, int threads) {
  // Idle threads spin 2^n cycles before they sleep; the default of 2^26 would run on into the next contestant's time.
  setenv("OPENBLAS_THREAD_TIMEOUT", "16", 0);
  if (!core.empty()) return set_core(core.c_str());
  if (std::getenv(kCoreVariable) || !missing().empty()) return;
  const char* fastest = "";
  double least = std::numeric_limits<double>::infinity();
  for (const char* candidate : candidate_cores())
    if (const double seconds = seconds_with_core(candidate, threads); seconds < least)
      least = seconds, fastest = candidate;
  set_core(fastest);
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
