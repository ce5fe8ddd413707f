// Global memory: the ranges that a launch names, and no other byte.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/emulator.hpp"
#include "emulator/findings.hpp"

namespace splitq::emulator {

class GlobalMemory {
 public:
  GlobalMemory(std::vector<MemoryRange> ranges, Counters& counters, Findings& findings);

  /// Where the access is not allowed, reads give NaN patterns and writes are dropped. True where it is.
  bool read(unsigned thread, void* to, const void* from, std::size_t bytes);
  bool write(unsigned thread, void* to, const void* from, std::size_t bytes);
  /// Whether a read or a write of `bytes` at `address` is allowed; counted and reported as such.
  bool check(unsigned thread, const void* address, std::size_t bytes, bool writing);

 private:
  void report(unsigned thread, std::uintptr_t address, std::size_t bytes, bool writing);

  std::vector<MemoryRange> ranges_;
  std::size_t last_ = 0;  // the range of the last access: most often that of the next
  Counters& counters_;
  Findings& findings_;
};

}  // namespace splitq::emulator
