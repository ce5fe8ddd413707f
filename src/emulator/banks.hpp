// Bank conflicts. Shared memory has 32 banks of 4 bytes; a wavefront serves one word of each. Accesses of 8 and 16 bytes
// go in parts of 16 and 8 lanes, so that a part can be served by one wavefront.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "emulator/emulator.hpp"

namespace splitq::emulator {

inline constexpr unsigned kLanes = 32;

/// One access by the lanes in `mask`.
struct WarpAccess {
  unsigned bytes = 0;  // a lane
  bool writing = false;
  std::uint32_t mask = 0;
  std::array<std::uint32_t, kLanes> address{};
};

void count_wavefronts(const WarpAccess& access, Counters& counters);

/// Plain loads and stores arrive lane by lane. The n-th of each lane since the warp last met are one access.
class WarpAccesses {
 public:
  void add(unsigned lane, unsigned bytes, bool writing, std::uint32_t address);
  void flush(Counters& counters);

 private:
  std::vector<WarpAccess> accesses_;
  std::array<std::size_t, kLanes> next_{};
};

}  // namespace splitq::emulator
