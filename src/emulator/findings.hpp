// What a run has found so far.
#pragma once

#include <fmt/format.h>

#include <array>

#include "emulator/emulator.hpp"

namespace splitq::emulator {

class Findings {
 public:
  void begin_block(Dim3 block) { block_ = block; }

  /// A mistake in a kernel is found thousands of times: the first few of a kind are worth a message.
  template <class... Args>
  void add(Fault fault, unsigned thread, fmt::format_string<Args...> format, Args&&... args) {
    ++total_;
    if (of_a_kind_.at(static_cast<std::size_t>(fault))++ >= kMaxFindingsOfAKind) return;
    list_.push_back({fault, block_, thread, fmt::format(format, std::forward<Args>(args)...)});
  }

  void move_to(Report& report) {
    report.found = std::move(list_);
    report.found_total = total_;
  }

 private:
  Dim3 block_;
  std::vector<Finding> list_;
  std::array<unsigned, kFaults> of_a_kind_{};
  std::uint64_t total_ = 0;
};

}  // namespace splitq::emulator
