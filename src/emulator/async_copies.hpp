// The cp.async copies of one thread, in groups as it commits them.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace splitq::emulator {

struct AsyncCopy {
  std::uint32_t shared = 0;
  const void* global = nullptr;
  std::uint32_t bytes = 0;
  std::uint32_t source_bytes = 0;  // the rest is filled up with zeros
};

class AsyncCopies {
 public:
  void issue(const AsyncCopy& copy) { open_.push_back(copy); }

  void commit() {
    groups_.push_back(std::move(open_));
    open_.clear();
  }

  /// Takes out the copies of all groups but the `newest`, oldest first, and gives them to finish().
  template <class Finish>
  void wait(std::size_t newest, Finish&& finish) {
    for (; groups_.size() > newest; groups_.pop_front()) {
      for (const AsyncCopy& copy : groups_.front()) finish(copy);
    }
  }

 private:
  std::vector<AsyncCopy> open_;
  std::deque<std::vector<AsyncCopy>> groups_;
};

}  // namespace splitq::emulator
