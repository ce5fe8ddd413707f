#include "problem/views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "problem/names.hpp"

namespace splitq {
namespace {

bool multiply(std::int64_t a, std::int64_t b, std::int64_t* out) { return !__builtin_mul_overflow(a, b, out); }
bool add(std::int64_t a, std::int64_t b, std::int64_t* out) { return !__builtin_add_overflow(a, b, out); }

bool is_empty(const TensorView& view) {
  return std::any_of(view.shape.begin(), view.shape.begin() + view.rank, [](std::int64_t n) { return n == 0; });
}

bool byte_range(const TensorView& view, ByteRange* range) {
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  ByteRange r{0, size};
  for (int d = 0; d < view.rank; ++d) {
    std::int64_t reach = 0;
    if (!multiply(view.shape[d] - 1, view.strides[d], &reach) || !multiply(reach, size, &reach)) return false;
    std::int64_t& side = reach < 0 ? r.begin : r.end;
    if (!add(side, reach, &side)) return false;
  }
  std::int64_t length = 0;
  *range = r;
  return !__builtin_sub_overflow(r.end, r.begin, &length);
}

struct AddressRange {
  std::uintptr_t begin = 0, end = 0;
  bool contains(std::uintptr_t address) const { return begin <= address && address < end; }
};

AddressRange address_range(const TensorView& view) {
  const ByteRange range = byte_range(view);
  const auto data = reinterpret_cast<std::uintptr_t>(view.data);
  return {data + static_cast<std::uintptr_t>(range.begin), data + static_cast<std::uintptr_t>(range.end)};
}

std::string list_bytes(const TensorView& view) {
  const TensorInfo t = info(view);
  return fmt::format("shape {}, strides {} of {}", shape_string(t), strides_string(t), to_string(view.dtype));
}

}  // namespace

ByteRange byte_range(const TensorView& view) {
  ByteRange range;
  if (!is_empty(view)) byte_range(view, &range);  // holds: check_view() came first
  return range;
}

Device resolve_device(Device device) {
  if (device.kind == DeviceKind::kAuto || device.kind == DeviceKind::kCpu) return {DeviceKind::kCpu, 0};
  return device;
}

Status check_view(const char* name, const TensorView& view) {
  if (view.rank == 0) {
    if (view.data == nullptr) return {};
    return Status::invalid(
        fmt::format("{}: rank 0 with data; must have a rank from 1 to {}, or no data where it is not "
                    "given",
                    name, kMaxRank));
  }
  if (view.rank < 0 || view.rank > kMaxRank) {
    return Status::invalid(fmt::format("{}: rank {}; must be from 1 to {}", name, view.rank, kMaxRank));
  }
  if (!is_valid(view.dtype)) {
    return Status::invalid(
        fmt::format("{}: type number {}; must be one of fp32 (0), fp16 (1), bf16 (2), int32 (3), int64 "
                    "(4), bool (5)",
                    name, static_cast<int>(view.dtype)));
  }
  if (!is_valid(view.device.kind)) {
    return Status::invalid(fmt::format("{}: device number {}; must be one of auto (0), cpu (1), cuda (2), emulator (3)",
                                       name, static_cast<int>(view.device.kind)));
  }
  std::int64_t count = 1;
  for (int d = 0; d < view.rank; ++d) {
    if (view.shape[d] < 0) {
      return Status::invalid(fmt::format("{}: shape {}; must have no negative size", name, shape_string(info(view))));
    }
    // An empty axis counts as one: others may not rely on it to keep their products small.
    if (!multiply(count, std::max<std::int64_t>(view.shape[d], 1), &count))
      count = std::numeric_limits<std::int64_t>::max();
  }
  std::int64_t bytes = 0;
  if (!multiply(count, static_cast<std::int64_t>(size_of(view.dtype)), &bytes)) {
    return Status::invalid(fmt::format("{}: shape {} of {}; must have fewer than 2^63 bytes", name,
                                       shape_string(info(view)), to_string(view.dtype)));
  }
  if (is_empty(view)) return {};

  ByteRange range;
  if (!byte_range(view, &range)) {
    return Status::invalid(fmt::format("{}: {}; must span fewer than 2^63 bytes", name, list_bytes(view)));
  }
  if (view.data == nullptr) {
    return Status::invalid(fmt::format("{}: no data (null) for shape {}; must point to its first element", name,
                                       shape_string(info(view))));
  }
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  const auto below = static_cast<std::uintptr_t>(-range.begin), above = static_cast<std::uintptr_t>(range.end);
  if (address < below || above > std::numeric_limits<std::uintptr_t>::max() - address) {
    return Status::invalid(
        fmt::format("{}: {} at address {:#x}; must lie inside the address space", name, list_bytes(view), address));
  }
  if (address % size_of(view.dtype) != 0) {
    return Status::invalid(fmt::format("{}: address {:#x}; must be a multiple of {}, the size of {}", name, address,
                                       size_of(view.dtype), to_string(view.dtype)));
  }
  return {};
}

Status check_written_once(const char* name, const TensorView& view) {
  if (view.rank == 0 || is_empty(view)) return {};
  std::array<std::pair<std::uint64_t, std::uint64_t>, kMaxRank> axes;  // (stride, last index)
  for (int d = 0; d < view.rank; ++d) {
    const auto stride = static_cast<std::uint64_t>(view.strides[d]);
    axes[d] = {view.strides[d] < 0 ? 0 - stride : stride, static_cast<std::uint64_t>(view.shape[d] - 1)};
  }
  std::sort(axes.begin(), axes.begin() + view.rank);
  std::uint64_t reach = 0;  // of the axes so far; no overflow: the byte range fits
  for (int d = 0; d < view.rank; ++d) {
    const auto [stride, last] = axes[d];
    if (last == 0) continue;
    if (stride <= reach) {
      return Status::invalid(fmt::format(
          "{}: {}; must have strides under which no two elements overlap, as it is written", name, list_bytes(view)));
    }
    reach += stride * last;
  }
  return {};
}

Status check_disjoint(const char* written_name, const TensorView& written, const char* other_name,
                      const TensorView& other) {
  if (written.rank == 0 || other.rank == 0 || is_empty(written) || is_empty(other)) return {};
  const AddressRange a = address_range(written), b = address_range(other);
  if (a.end <= b.begin || b.end <= a.begin) return {};

  // A view without holes meets every other that begins or ends inside it.
  auto dense_meets = [](const TensorView& view, const AddressRange& range, const TensorView& that,
                        const AddressRange& that_range) {
    std::uint64_t count = 1;
    for (int d = 0; d < view.rank; ++d) count *= static_cast<std::uint64_t>(view.shape[d]);
    const bool dense = count * size_of(view.dtype) == range.end - range.begin;
    return dense && (range.contains(that_range.begin) || range.contains(that_range.end - size_of(that.dtype)));
  };
  const bool overlap = written.data == other.data || dense_meets(written, a, other, b) ||
                       (check_written_once(other_name, other).ok() && dense_meets(other, b, written, a));
  if (!overlap) return {};
  return Status::invalid(fmt::format("{}: shares memory with {}; must have memory of its own, as it is written",
                                     written_name, other_name));
}

Status check_same_device(const char* name, const TensorView& view, const char* first_name, const TensorView& first) {
  if (resolve_device(view.device) == resolve_device(first.device)) return {};
  return Status::invalid(fmt::format("{}: on {}; must be on {}, where {} is", name,
                                     to_string(resolve_device(view.device)), to_string(resolve_device(first.device)),
                                     first_name));
}

Status check_on_cpu(const char* name, const TensorView& view, const char* what) {
  if (resolve_device(view.device).kind == DeviceKind::kCpu) return {};
  return Status::unsupported(fmt::format("{}: on {}; must be on cpu for {}", name, to_string(view.device), what));
}

Status check_views(std::span<const NamedView> views) {
  const NamedView* first = nullptr;
  for (const NamedView& v : views) {
    SPLITQ_TRY(check_view(v.name, *v.view));
    if (!v.view->given()) continue;
    if (first == nullptr) first = &v;
    SPLITQ_TRY(check_same_device(v.name, *v.view, first->name, *first->view));
  }
  for (const NamedView& v : views) {
    if (!v.written) continue;
    SPLITQ_TRY(check_written_once(v.name, *v.view));
    for (const NamedView& other : views) {
      if (other.view != v.view) SPLITQ_TRY(check_disjoint(v.name, *v.view, other.name, *other.view));
    }
  }
  return {};
}

Status check_views(Direction direction, const Tensors& tensors) {
  std::array<NamedView, 32> views;
  std::size_t count = 0;
  for_each_tensor(tensors, [&](const char* name, const TensorView& view) { views.at(count++) = {name, &view}; });
  for_each_written(direction, tensors, [&](const char*, const TensorView& view) {
    for (NamedView& v : views) v.written |= v.view == &view;
  });
  return check_views(std::span(views).first(count));
}

}  // namespace splitq
