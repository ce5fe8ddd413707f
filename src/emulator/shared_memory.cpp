#include "emulator/shared_memory.hpp"

#include <fmt/format.h>

#include <cstring>

namespace splitq::emulator {
namespace {

constexpr std::byte kPoison{0xFF};  // NaN in fp32, fp16 and bf16
constexpr std::uint32_t kWordBytes = 4, kWarpSize = 32;

std::uint32_t address_of(std::size_t word) { return kSharedBase + static_cast<std::uint32_t>(word) * kWordBytes; }

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes, unsigned threads, Counters& counters, Findings& findings)
    : warps_((threads + kWarpSize - 1) / kWarpSize),
      data_(bytes, kPoison),
      words_((bytes + kWordBytes - 1) / kWordBytes),
      readers_(words_.size() * warps_),
      counters_(counters),
      findings_(findings) {}

bool SharedMemory::in_bounds(unsigned thread, std::uint32_t address, std::uint32_t bytes, const char* what) {
  if (address % bytes != 0) {
    findings_.add(Fault::kMisaligned, thread, "shared {} of {} bytes at {:#x}, which is no multiple of {}", what, bytes,
                  address, bytes);
    return false;
  }
  if (address >= kSharedBase && std::size_t{address} - kSharedBase + bytes <= data_.size()) return true;
  findings_.add(Fault::kSharedBounds, thread, "shared {} of {} bytes at byte {} of the block's {}", what, bytes,
                std::int64_t{address} - kSharedBase, data_.size());
  return false;
}

void SharedMemory::check_write(unsigned thread, const Clocks& clocks, std::size_t word, const char* what) {
  const Word& w = words_[word];
  if (w.in_flight != kNobody) {
    findings_.add(Fault::kInFlight, thread, "shared {} at {:#x} while a copy by thread {} into it is not waited for",
                  what, address_of(word), w.in_flight);
  } else if (!clocks.ordered(w.write.thread, w.write.time, thread)) {
    findings_.add(Fault::kRace, thread, "shared {} at {:#x}: no barrier since thread {} wrote it", what,
                  address_of(word), w.write.thread);
  } else {
    for (unsigned warp = 0; warp < warps_; ++warp) {
      const Access& reader = readers(word)[warp];
      if (clocks.ordered(reader.thread, reader.time, thread)) continue;
      findings_.add(Fault::kRace, thread, "shared {} at {:#x}: no barrier since thread {} read it", what,
                    address_of(word), reader.thread);
      return;
    }
  }
}

void SharedMemory::read(unsigned thread, const Clocks& clocks, std::uint32_t address, void* to, std::uint32_t bytes) {
  counters_.shared_bytes_read += bytes;
  if (!in_bounds(thread, address, bytes, "read")) {
    std::memset(to, static_cast<int>(kPoison), bytes);
    return;
  }
  std::memcpy(to, data_.data() + (address - kSharedBase), bytes);
  const std::size_t first = (address - kSharedBase) / kWordBytes;
  for (std::size_t word = first; word < first + bytes / kWordBytes; ++word) {
    const Word& w = words_[word];
    if (w.in_flight != kNobody) {
      findings_.add(Fault::kInFlight, thread,
                    "shared read at {:#x} while a copy by thread {} into it is not waited for", address_of(word),
                    w.in_flight);
    } else if (!w.initialised) {
      findings_.add(Fault::kUninitialised, thread, "shared read at {:#x} (byte {}), which nobody has written",
                    address_of(word), word * kWordBytes);
    } else if (!clocks.ordered(w.write.thread, w.write.time, thread)) {
      findings_.add(Fault::kRace, thread, "shared read at {:#x}: no barrier since thread {} wrote it", address_of(word),
                    w.write.thread);
    }
    readers(word)[thread / kWarpSize] = {static_cast<std::uint16_t>(thread), clocks.now(thread)};
  }
}

void SharedMemory::write(unsigned thread, const Clocks& clocks, std::uint32_t address, const void* from,
                         std::uint32_t bytes) {
  counters_.shared_bytes_written += bytes;
  if (!in_bounds(thread, address, bytes, "write")) return;
  std::memcpy(data_.data() + (address - kSharedBase), from, bytes);
  const std::size_t first = (address - kSharedBase) / kWordBytes;
  for (std::size_t word = first; word < first + bytes / kWordBytes; ++word) {
    check_write(thread, clocks, word, "write");
    words_[word].initialised = true;
    words_[word].write = {static_cast<std::uint16_t>(thread), clocks.now(thread)};
  }
}

bool SharedMemory::issue(unsigned thread, const Clocks& clocks, std::uint32_t address, std::uint32_t bytes) {
  counters_.shared_bytes_written += bytes;
  if (!in_bounds(thread, address, bytes, "write by cp.async")) return false;
  const std::size_t first = (address - kSharedBase) / kWordBytes;
  for (std::size_t word = first; word < first + bytes / kWordBytes; ++word) {
    check_write(thread, clocks, word, "write by cp.async");
    words_[word].in_flight = static_cast<std::uint16_t>(thread);
  }
  return true;
}

void SharedMemory::arrive(const AsyncCopy& copy) {
  std::byte* const to = data_.data() + (copy.shared - kSharedBase);
  std::memset(to, 0, copy.bytes);
  if (copy.source_bytes == 0) return;
  if (copy.global != nullptr)
    std::memcpy(to, copy.global, copy.source_bytes);
  else
    std::memset(to, static_cast<int>(kPoison), copy.source_bytes);
}

void SharedMemory::finish(unsigned thread, const Clocks& clocks, std::uint32_t address, std::uint32_t bytes) {
  const std::size_t first = (address - kSharedBase) / kWordBytes;
  for (std::size_t word = first; word < first + bytes / kWordBytes; ++word) {
    words_[word].in_flight = kNobody;
    words_[word].initialised = true;
    words_[word].write = {static_cast<std::uint16_t>(thread), clocks.now(thread)};
  }
}

}  // namespace splitq::emulator
