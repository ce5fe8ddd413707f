// A block's shared memory, and beside each word what is needed to tell whether an access to it is in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/async_copies.hpp"
#include "emulator/clocks.hpp"
#include "emulator/emulator.hpp"
#include "emulator/findings.hpp"

namespace splitq::emulator {

/// Where dynamic shared memory begins. Not 0, so that an address that misses the base is out of bounds.
inline constexpr std::uint32_t kSharedBase = 1024;

class SharedMemory {
 public:
  SharedMemory(std::size_t bytes, unsigned threads, Counters& counters, Findings& findings);

  /// Accesses of 4 to 16 bytes, aligned to their size. What can't be read is poison; what can't be written is dropped.
  void read(unsigned thread, const Clocks& clocks, std::uint32_t address, void* to, std::uint32_t bytes);
  void write(unsigned thread, const Clocks& clocks, std::uint32_t address, const void* from, std::uint32_t bytes);

  /// An asynchronous copy's life: from issue to the wait that covers it, the destination is nobody's.
  bool issue(unsigned thread, const Clocks& clocks, std::uint32_t address, std::uint32_t bytes);
  /// The bytes arrive: NaN patterns where the copy's source is null.
  void arrive(const AsyncCopy& copy);
  void finish(unsigned thread, const Clocks& clocks, std::uint32_t address, std::uint32_t bytes);

 private:
  struct Access {
    std::uint16_t thread = 0;
    Clock time = 0;  // 0: none
  };
  static constexpr std::uint16_t kNobody = 0xFFFF;
  struct Word {
    Access write;
    std::uint16_t in_flight = kNobody;  // the thread whose copy is not waited for
    bool initialised = false;
  };

  bool in_bounds(unsigned thread, std::uint32_t address, std::uint32_t bytes, const char* what);
  /// Reports what makes a write to the word wrong now; a copy in flight counts as a write.
  void check_write(unsigned thread, const Clocks& clocks, std::size_t word, const char* what);
  Access* readers(std::size_t word) { return readers_.data() + word * warps_; }

  unsigned warps_;
  std::vector<std::byte> data_;
  std::vector<Word> words_;
  std::vector<Access> readers_;  // [word][warp]: the warp's last reader
  Counters& counters_;
  Findings& findings_;
};

}  // namespace splitq::emulator
