// The vectorised parts of the materialised baseline, and the streaming read that bandwidth is measured with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "splitq/splitq.hpp"

namespace splitq::bench {

/// scores (rows x columns, row stride ld) <- exp(scale * (scores - row maximum)), not divided by the row sum.
/// Row r sees its first `visible + r` columns; the others become 0. inverse_sum, lse: one a row.
void softmax_rows(float* scores, std::int64_t rows, std::int64_t columns, std::int64_t ld, std::int64_t visible,
                  float scale, float* inverse_sum, float* lse);

/// Each row times its factor.
void scale_rows(float* matrix, std::int64_t rows, std::int64_t columns, std::int64_t ld, const float* factor);

/// ds <- scale * p * (ds - delta), delta one a row.
void softmax_backward_rows(float* ds, const float* p, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                           const float* delta, float scale);

/// Sum of the products of n elements.
float dot(const float* a, const float* b, std::int64_t n);

void to_float(const void* source, DType dtype, float* target, std::int64_t n);
void from_float(const float* source, void* target, DType dtype, std::int64_t n);

/// Reads every byte (a multiple of 512) once; the value keeps the reads alive.
std::uint64_t read_all(const std::byte* data, std::size_t bytes);

}  // namespace splitq::bench
