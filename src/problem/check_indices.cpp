// The values of the index tensors: sequence bounds, used lengths, pages.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "problem/problem.hpp"

namespace splitq {
namespace {

/// 0 = starts[0] <= starts[1] <= ... <= total.
Status check_cu_seqlens(const char* name, const TensorView& starts, std::int64_t total, const char* tensor) {
  if (!starts.given()) return {};
  const std::int64_t last = starts.shape[0] - 1;
  std::int64_t before = index_at(starts, 0);
  if (before != 0) return Status::invalid(fmt::format("{}[0]: {}; must be 0", name, before));
  for (std::int64_t b = 1; b <= last; ++b) {
    const std::int64_t here = index_at(starts, b);
    if (here < before) {
      return Status::invalid(
          fmt::format("{0}[{1}]: {2}; must be at least {3}, which is {0}[{4}]", name, b, here, before, b - 1));
    }
    before = here;
  }
  if (before > total) {
    return Status::invalid(
        fmt::format("{}[{}]: {}; must be at most {}, the rows of {}", name, last, before, total, tensor));
  }
  return {};
}

std::int64_t own_length(const TensorView& starts, std::int64_t max_length, std::int64_t b) {
  return starts.given() ? index_at(starts, b + 1) - index_at(starts, b) : max_length;
}

/// Used lengths, each from 0 to what its sequence has room for.
Status check_seqlens(const char* name, const TensorView& lengths, const TensorView& starts, std::int64_t max_length,
                     std::int64_t batch, const char* room) {
  if (!lengths.given()) return {};
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t length = index_at(lengths, b), own = own_length(starts, max_length, b);
    if (length < 0 || length > own) {
      return Status::invalid(fmt::format("{}[{}]: {}; must be from 0 to {}, {}", name, b, length, own, room));
    }
  }
  return {};
}

/// The entries that a length reaches name pages of the pool.
Status check_block_table(const Problem& problem, const Tensors& tensors) {
  if (!problem.paged()) return {};
  const std::int64_t pages = tensors.k.shape[0];
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const std::int64_t length = index_at(tensors.seqlens_k, b);
    const std::int64_t used = length / problem.page_size + (length % problem.page_size != 0);
    for (std::int64_t j = 0; j < used; ++j) {
      const std::int64_t page = index_at(tensors.block_table, b, j);
      if (page < 0 || page >= pages) {
        return Status::invalid(fmt::format("block_table[{}, {}]: {}; must be from 0 to {}, as k has {} pages", b, j,
                                           page, pages - 1, pages));
      }
    }
  }
  return {};
}

/// A bias or a mask reaches as far as the longest sequence: its rows (or one for all), its columns.
Status check_covers(const char* name, const TensorView& view, std::int64_t longest_q, std::int64_t longest_k) {
  if (!view.given()) return {};
  if (view.shape[2] != 1 && view.shape[2] < longest_q) {
    return Status::invalid(fmt::format("{}: {} rows; must be 1 or at least {}, the longest sequence of q", name,
                                       view.shape[2], longest_q));
  }
  if (view.shape[3] < longest_k) {
    return Status::invalid(
        fmt::format("{}: {} columns; must be at least {}, the longest sequence of k", name, view.shape[3], longest_k));
  }
  return {};
}

}  // namespace

std::int64_t index_at(const TensorView& view, std::int64_t i, std::int64_t j) {
  const std::int64_t at = i * view.strides[0] + j * view.strides[1];
  return view.dtype == DType::kInt32 ? static_cast<const std::int32_t*>(view.data)[at]
                                     : static_cast<const std::int64_t*>(view.data)[at];
}

Sequence sequence(const Problem& problem, const Tensors& tensors, std::int64_t b) {
  Sequence s;
  if (problem.packed_q()) s.q_begin = index_at(tensors.cu_seqlens_q, b);
  if (problem.packed_k()) s.k_begin = index_at(tensors.cu_seqlens_k, b);
  s.seqlen_q = tensors.seqlens_q.given() ? index_at(tensors.seqlens_q, b)
                                         : own_length(tensors.cu_seqlens_q, problem.max_seqlen_q, b);
  s.seqlen_k = tensors.seqlens_k.given() ? index_at(tensors.seqlens_k, b)
                                         : own_length(tensors.cu_seqlens_k, problem.max_seqlen_k, b);
  return s;
}

Status check_indices(const Problem& problem, const Tensors& tensors) {
  if (problem.device.kind == DeviceKind::kCuda) return {};  // to read them would make the host wait for the device
  SPLITQ_TRY(check_cu_seqlens("cu_seqlens_q", tensors.cu_seqlens_q, problem.max_seqlen_q, "q"));
  SPLITQ_TRY(check_cu_seqlens("cu_seqlens_k", tensors.cu_seqlens_k, problem.max_seqlen_k, "k"));
  SPLITQ_TRY(check_seqlens("seqlens_q", tensors.seqlens_q, tensors.cu_seqlens_q, problem.max_seqlen_q, problem.batch,
                           "the length of the sequence"));
  SPLITQ_TRY(check_seqlens("seqlens_k", tensors.seqlens_k, tensors.cu_seqlens_k, problem.max_seqlen_k, problem.batch,
                           problem.paged() ? "what block_table reaches" : "the length of the sequence"));
  SPLITQ_TRY(check_block_table(problem, tensors));
  if (!tensors.bias.given() && !tensors.mask.given()) return {};

  std::int64_t longest_q = 0, longest_k = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const Sequence s = sequence(problem, tensors, b);
    longest_q = std::max(longest_q, s.seqlen_q);
    longest_k = std::max(longest_k, s.seqlen_k);
  }
  SPLITQ_TRY(check_covers("bias", tensors.bias, longest_q, longest_k));
  return check_covers("mask", tensors.mask, longest_q, longest_k);
}

}  // namespace splitq
