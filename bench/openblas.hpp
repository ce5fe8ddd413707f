// OpenBLAS, opened at run time: its kernel is chosen by an environment variable that must be set before the library
// loads, and a machine without it can still measure splitq.
#pragma once

#include <cstdint>
#include <string>

namespace splitq::bench {

class OpenBlas {
 public:
  /// What the next load takes as its kernel (OPENBLAS_CORETYPE). "" chooses: what the user set, else the fastest of those
  /// that this processor can run, measured in child processes. Left alone, OpenBLAS takes its oldest kernel on a
  /// processor that it does not know.
  static void choose_core(const std::string& core, int threads);

  /// Loads on first use. Throws std::runtime_error where there is none.
  static OpenBlas& get();
  /// Why get() would throw; "" where it would not. Does not load.
  static std::string missing();

  std::string core() const;
  void set_threads(int threads) const;

  /// C (m x n) <- alpha op(A) op(B) + beta C, row-major; op transposes where asked.
  void sgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
             const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
             std::int64_t ldc) const;

 private:
  OpenBlas();
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
  Sgemm sgemm_ = nullptr;
  void (*set_num_threads_)(int) = nullptr;
  char* (*get_corename_)() = nullptr;
};

}  // namespace splitq::bench
