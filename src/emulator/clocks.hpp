// Which of two events in different threads came first for certain: a vector clock a thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace splitq::emulator {

using Clock = std::uint32_t;

class Clocks {
 public:
  explicit Clocks(unsigned threads) : threads_(threads), known_(std::size_t{threads} * threads), joined_(threads) {
    for (unsigned t = 0; t < threads; ++t) known(t)[t] = 1;
  }

  /// The time of `thread` now.
  Clock now(unsigned thread) const { return known_[std::size_t{thread} * threads_ + thread]; }

  /// Whether what `other` did at `time` is ordered before what `thread` does now.
  bool ordered(unsigned other, Clock time, unsigned thread) const {
    return known_[std::size_t{thread} * threads_ + other] >= time;
  }

  /// A barrier: everything that one of them did is ordered before everything that one of them will do.
  void join(std::span<const unsigned> members) {
    std::fill(joined_.begin(), joined_.end(), 0);
    for (const unsigned m : members) {
      const Clock* k = known(m);
      for (unsigned t = 0; t < threads_; ++t) joined_[t] = std::max(joined_[t], k[t]);
    }
    for (const unsigned m : members) {
      std::copy(joined_.begin(), joined_.end(), known(m));
      ++known(m)[m];
    }
  }

 private:
  Clock* known(unsigned thread) { return known_.data() + std::size_t{thread} * threads_; }

  unsigned threads_;
  std::vector<Clock> known_;  // [thread][of thread]
  std::vector<Clock> joined_;
};

}  // namespace splitq::emulator
