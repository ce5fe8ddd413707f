#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "emulator/block.hpp"

namespace splitq::emulator {
namespace {

constexpr std::size_t kStackBytes = std::size_t{512} << 10;
constexpr unsigned kMaxThreads = 1024;
constexpr std::size_t kMaxSharedBytes = std::size_t{227} << 10;  // sm_90: the most of any architecture

void check(const Launch& launch) {
  if (launch.threads == 0 || launch.threads > kMaxThreads || launch.threads % kLanes != 0) {
    throw std::invalid_argument(
        fmt::format("threads was {}; it may be a multiple of {}, at most {}", launch.threads, kLanes, kMaxThreads));
  }
  if (launch.shared_bytes > kMaxSharedBytes) {
    throw std::invalid_argument(
        fmt::format("shared_bytes was {}; it may be at most {}", launch.shared_bytes, kMaxSharedBytes));
  }
}

std::vector<Dim3> blocks_of(Dim3 grid) {
  std::vector<Dim3> blocks;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) blocks.push_back({x, y, z});
  return blocks;
}

}  // namespace

Report run(const Launch& launch, const std::function<void()>& kernel_body) {
  check(launch);
  Report report;
  Findings findings;
  GlobalMemory global(launch.memory, report.counters, findings);
  std::mt19937 random(static_cast<std::mt19937::result_type>(launch.seed ^ (launch.seed >> 32)));
  std::vector<std::unique_ptr<Fiber>> fibers;
  for (unsigned t = 0; t < launch.threads; ++t) fibers.push_back(std::make_unique<Fiber>(kStackBytes));
  Machine machine{launch, kernel_body, report.counters, findings, global, random, fibers};

  std::vector<Dim3> blocks = blocks_of(launch.grid);
  std::shuffle(blocks.begin(), blocks.end(), random);
  for (const Dim3 index : blocks) {
    if (!Block(machine, index).run()) break;
  }
  findings.move_to(report);
  return report;
}

}  // namespace splitq::emulator
