#include <fmt/format.h>

#include <algorithm>

#include "emulator/emulator.hpp"

namespace splitq::emulator {

const char* name(Fault fault) {
  switch (fault) {
    case Fault::kSharedBounds:
      return "shared memory out of bounds";
    case Fault::kGlobalBounds:
      return "global memory out of bounds";
    case Fault::kMisaligned:
      return "misaligned";
    case Fault::kUninitialised:
      return "uninitialised";
    case Fault::kRace:
      return "race";
    case Fault::kInFlight:
      return "copy in flight";
    case Fault::kDivergence:
      return "divergence";
    case Fault::kBarrier:
      return "barrier";
    case Fault::kDeadlock:
      return "deadlock";
  }
  return "";
}

bool Report::has(Fault fault) const {
  return std::any_of(found.begin(), found.end(), [&](const Finding& f) { return f.fault == fault; });
}

std::string Report::to_string() const {
  std::string text;
  for (const Finding& f : found) {
    text += fmt::format("{}: block ({}, {}, {}), thread {}: {}\n", name(f.fault), f.block.x, f.block.y, f.block.z,
                        f.thread, f.message);
  }
  if (found_total > found.size()) text += fmt::format("and {} more\n", found_total - found.size());
  return text;
}

}  // namespace splitq::emulator
