// What can be wrong with a view on its own, and with two views of one call, whatever they mean.
#pragma once

#include <span>

#include "problem/problem.hpp"

namespace splitq {

struct NamedView {
  const char* name;
  const TensorView* view;
  bool written = false;
};

/// All of the checks below, for the tensors of one call.
Status check_views(std::span<const NamedView> views);

/// Rank, type, shape, strides, address: everything that must hold before any of them is used in arithmetic.
Status check_view(const char* name, const TensorView& view);

/// No two elements share memory. Each stride must step over all that the smaller ones reach, which holds for
/// every slice, transpose and permutation of an array.
Status check_written_once(const char* name, const TensorView& view);

/// `written` shares no memory with `other`, as far as that can be told without comparing every element: views
/// that interleave, like the slices of one (B, S, 3, H, D) array, are let through.
Status check_disjoint(const char* written_name, const TensorView& written, const char* other_name,
                      const TensorView& other);

/// Both lie on one device.
Status check_same_device(const char* name, const TensorView& view, const char* first_name, const TensorView& first);

/// For what no other device computes.
Status check_on_cpu(const char* name, const TensorView& view, const char* what);

/// Bytes relative to `data`, from the first to behind the last that an element occupies.
struct ByteRange {
  std::int64_t begin = 0, end = 0;
};

/// Of a view that check_view() let pass. Empty where the view has no elements.
ByteRange byte_range(const TensorView& view);

/// kAuto, for a tensor, is the CPU.
Device resolve_device(Device device);

}  // namespace splitq
