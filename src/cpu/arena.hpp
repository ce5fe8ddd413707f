// Working memory of one worker. The same layout code runs twice: once over an empty arena to learn the size, once to take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace splitq::cpu {

class Arena {
 public:
  static constexpr std::size_t kAlign = 64;  // a cache line, and the widest vector

  Arena() = default;  // counts only
  explicit Arena(std::byte* base) : base_(base) {}

  template <class T>
  T* take(std::int64_t count) {
    const std::size_t at = used_;
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + kAlign - 1) / kAlign * kAlign;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
  }

  /// An array of objects, made where there is memory; layout(object) takes what each needs besides.
  template <class T, class Layout>
  T* make(std::int64_t count, const Layout& layout) {
    T* array = take<T>(count);
    for (std::int64_t i = 0; i < count; ++i) {
      T unused;
      layout(array == nullptr ? unused : *new (array + i) T);
    }
    return array;
  }

  std::size_t used() const { return used_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t used_ = 0;
};

}  // namespace splitq::cpu
