#include "emulator/global_memory.hpp"

#include <fmt/format.h>

#include <cstring>

namespace splitq::emulator {
namespace {

constexpr int kPoison = 0xFF;  // NaN in fp32, fp16 and bf16

std::uintptr_t begin_of(const MemoryRange& range) { return reinterpret_cast<std::uintptr_t>(range.begin); }

bool holds(const MemoryRange& range, std::uintptr_t address, std::size_t bytes) {
  return address >= begin_of(range) && bytes <= range.bytes && address - begin_of(range) <= range.bytes - bytes;
}

}  // namespace

GlobalMemory::GlobalMemory(std::vector<MemoryRange> ranges, Counters& counters, Findings& findings)
    : ranges_(std::move(ranges)), counters_(counters), findings_(findings) {}

bool GlobalMemory::check(unsigned thread, const void* address, std::size_t bytes, bool writing) {
  (writing ? counters_.global_bytes_written : counters_.global_bytes_read) += bytes;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (at % bytes != 0) {
    findings_.add(Fault::kMisaligned, thread, "global {} of {} bytes at {:#x}, which is no multiple of {}",
                  writing ? "write" : "read", bytes, at, bytes);
    return false;
  }
  const auto allowed = [&](const MemoryRange& range) {
    return holds(range, at, bytes) && (range.writable || !writing);
  };
  if (last_ < ranges_.size() && allowed(ranges_[last_])) return true;
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    if (!allowed(ranges_[i])) continue;
    last_ = i;
    return true;
  }
  report(thread, at, bytes, writing);
  return false;
}

void GlobalMemory::report(unsigned thread, std::uintptr_t address, std::size_t bytes, bool writing) {
  // The nearest range is most likely the one that was meant.
  const MemoryRange* nearest = nullptr;
  std::uintptr_t distance = 0;
  for (const MemoryRange& range : ranges_) {
    const std::uintptr_t begin = begin_of(range), end = begin + range.bytes;
    const std::uintptr_t d = address < begin ? begin - address : address >= end ? address - end : 0;
    if (nearest == nullptr || d < distance) nearest = &range, distance = d;
  }
  std::string where = "; the launch names no range";
  if (nearest != nullptr) {
    where = fmt::format(": byte {} of {}, which has {}{}", static_cast<std::int64_t>(address - begin_of(*nearest)),
                        nearest->name, nearest->bytes, nearest->writable ? "" : " and is read-only");
  }
  findings_.add(Fault::kGlobalBounds, thread, "global {} of {} bytes at {:#x}{}", writing ? "write" : "read", bytes,
                address, where);
}

bool GlobalMemory::read(unsigned thread, void* to, const void* from, std::size_t bytes) {
  const bool allowed = check(thread, from, bytes, false);
  if (allowed)
    std::memcpy(to, from, bytes);
  else
    std::memset(to, kPoison, bytes);
  return allowed;
}

bool GlobalMemory::write(unsigned thread, void* to, const void* from, std::size_t bytes) {
  const bool allowed = check(thread, to, bytes, true);
  if (allowed) std::memcpy(to, from, bytes);
  return allowed;
}

}  // namespace splitq::emulator
