// The rows of one (sequence, head) of a tensor, at any stride, perhaps in pages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "problem/problem.hpp"
#include "tensor/element.hpp"

namespace splitq::cpu {

/// Row s of a (sequence, head): `stride` elements apart, or in pages where there is a table.
struct Rows {
  std::byte* base = nullptr;
  DType dtype = DType::kFp32;
  std::int64_t row_stride = 0;      // bytes
  std::int64_t element_stride = 1;  // elements
  std::int64_t page_size = 0;       // 0: not paged
  std::int64_t page_stride = 0;     // bytes
  const TensorView* block_table = nullptr;
  std::int64_t sequence = 0;  // row of the block table

  std::byte* row(std::int64_t s) const {
    if (page_size == 0) return base + s * row_stride;
    const std::int64_t page = index_at(*block_table, sequence, s / page_size);
    return base + page * page_stride + (s % page_size) * row_stride;
  }
  float load(std::int64_t s, std::int64_t d) const {
    return to_float(dtype, row(s) + d * element_stride * static_cast<std::int64_t>(size_of(dtype)));
  }
};

/// Rows of sequence b, head h of a (B, S, H, D) or packed (total, H, D) tensor; `begin`: the sequence's first packed row.
inline Rows rows_of(const TensorView& view, std::int64_t b, std::int64_t begin, std::int64_t h) {
  const auto bytes = static_cast<std::int64_t>(size_of(view.dtype));
  const int s = view.rank - 3;  // the dimension of rows
  const std::int64_t first = (s == 1 ? b * view.strides[0] : 0) + begin * view.strides[s] + h * view.strides[s + 1];
  Rows rows;
  rows.base = static_cast<std::byte*>(view.data) + first * bytes;
  rows.dtype = view.dtype;
  rows.row_stride = view.strides[s] * bytes;
  rows.element_stride = view.strides[s + 2];
  return rows;
}

/// Rows of sequence b, head h of paged keys or values (pages, page_size, H, D).
inline Rows paged_rows_of(const TensorView& view, const TensorView& block_table, std::int64_t b, std::int64_t h) {
  Rows rows = rows_of(view, 0, 0, h);
  rows.page_size = view.shape[1];
  rows.page_stride = view.strides[0] * static_cast<std::int64_t>(size_of(view.dtype));
  rows.block_table = &block_table;
  rows.sequence = b;
  return rows;
}

}  // namespace splitq::cpu
