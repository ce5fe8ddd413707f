// Runs device code (kernels/) as ordinary C++, one fiber per CUDA thread, and reports what a GPU would have done wrong
// silently: races, missing waits, uninitialised or foreign memory, deadlocks. It also counts the work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace splitq::emulator {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

/// When an asynchronous copy takes effect. A correct kernel can't tell.
enum class Completion {
  kAtOnce,  // when it is issued
  kLate,    // at the wait that covers it
};

/// Global memory that the kernel may touch. Nothing else is read or written, whatever the kernel does.
struct MemoryRange {
  std::string name;
  const void* begin = nullptr;
  std::size_t bytes = 0;
  bool writable = false;
};

inline MemoryRange readable(std::string name, const void* begin, std::size_t bytes) {
  return {std::move(name), begin, bytes, false};
}
inline MemoryRange writable(std::string name, void* begin, std::size_t bytes) {
  return {std::move(name), begin, bytes, true};
}

struct Launch {
  Dim3 grid{};
  unsigned threads = 32;  // of a block: a multiple of 32, at most 1024
  std::size_t shared_bytes = 0;
  Completion completion = Completion::kLate;
  std::uint64_t seed = 0;  // order of blocks and interleaving of threads
  std::vector<MemoryRange> memory{};
};

struct Counters {
  std::uint64_t global_bytes_read = 0, global_bytes_written = 0;
  std::uint64_t shared_bytes_read = 0, shared_bytes_written = 0;
  // Warp-wide accesses to shared memory go through 32 banks of 4 bytes in wavefronts; those beyond the fewest that the
  // access's size allows are conflicts.
  std::uint64_t shared_wavefronts = 0, shared_bank_conflicts = 0;
  std::uint64_t matmul_flops = 0;
  std::uint64_t ex2 = 0, lg2 = 0, rcp = 0, fma = 0, max_min = 0, convert = 0;  // by thread
  std::uint64_t shuffles = 0, votes = 0;                                       // by warp
  std::uint64_t barriers = 0, warp_barriers = 0;                               // completed
  std::uint64_t blocks = 0;

  bool operator==(const Counters&) const = default;
};

enum class Fault {
  kSharedBounds,
  kGlobalBounds,
  kMisaligned,
  kUninitialised,  // shared memory read before it was written
  kRace,           // two accesses to a word of shared memory, one of them a write, that nothing orders
  kInFlight,       // access to shared memory while an asynchronous copy into it is not waited for
  kDivergence,     // lanes of a warp at different warp-wide instructions
  kBarrier,        // a barrier used against its rules
  kDeadlock,
};
inline constexpr std::size_t kFaults = static_cast<std::size_t>(Fault::kDeadlock) + 1;

const char* name(Fault fault);

struct Finding {
  Fault fault{};
  Dim3 block;
  unsigned thread = 0;
  std::string message;
};

struct Report {
  Counters counters;
  std::vector<Finding> found;     // the first of each kind
  std::uint64_t found_total = 0;  // all

  bool clean() const { return found_total == 0; }
  bool has(Fault fault) const;
  /// One finding a line.
  std::string to_string() const;
};

inline constexpr unsigned kMaxFindingsOfAKind = 4;

/// Runs kernel_body once for every thread of the grid, the blocks one after another in a seeded order: blocks that wait
/// for one another by spinning would hang. A block that can't go on (deadlock, divergence) ends the run. Throws
/// std::invalid_argument for a launch that no GPU takes, and whatever kernel_body throws.
Report run(const Launch& launch, const std::function<void()>& kernel_body);

}  // namespace splitq::emulator
