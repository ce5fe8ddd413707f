#include "emulator/banks.hpp"

#include <algorithm>

namespace splitq::emulator {
namespace {

constexpr unsigned kBanks = 32, kWordBytes = 4;

/// Wavefronts for lanes [first, last): the most distinct words that one bank must serve.
unsigned wavefronts(const WarpAccess& access, unsigned first, unsigned last) {
  std::array<std::array<std::uint32_t, kBanks>, kBanks> words;  // [bank][word]
  std::array<unsigned, kBanks> count{};
  for (unsigned lane = first; lane < last; ++lane) {
    if ((access.mask >> lane & 1) == 0) continue;
    const std::uint32_t end = (access.address[lane] + access.bytes) / kWordBytes;
    for (std::uint32_t word = access.address[lane] / kWordBytes; word < end; ++word) {
      auto& bank = words[word % kBanks];
      unsigned& n = count[word % kBanks];
      if (std::find(bank.begin(), bank.begin() + n, word) == bank.begin() + n) bank[n++] = word;
    }
  }
  return *std::max_element(count.begin(), count.end());
}

}  // namespace

void count_wavefronts(const WarpAccess& access, Counters& counters) {
  const unsigned part = kLanes * kWordBytes / access.bytes;
  for (unsigned first = 0; first < kLanes; first += part) {
    const unsigned n = wavefronts(access, first, first + part);
    counters.shared_wavefronts += n;
    if (n > 1) counters.shared_bank_conflicts += n - 1;
  }
}

void WarpAccesses::add(unsigned lane, unsigned bytes, bool writing, std::uint32_t address) {
  std::size_t& n = next_[lane];
  while (n < accesses_.size() && (accesses_[n].bytes != bytes || accesses_[n].writing != writing)) ++n;
  if (n == accesses_.size()) accesses_.push_back({bytes, writing, 0, {}});
  accesses_[n].mask |= 1u << lane;
  accesses_[n].address[lane] = address;
  ++n;
}

void WarpAccesses::flush(Counters& counters) {
  for (const WarpAccess& access : accesses_) count_wavefronts(access, counters);
  accesses_.clear();
  next_ = {};
}

}  // namespace splitq::emulator
