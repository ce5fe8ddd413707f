// Memory for one array: aligned to a cache line, so that no vector load straddles two, and not initialised.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace splitq {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes) : data_(static_cast<std::byte*>(::operator new(bytes, kAlign))), size_(bytes) {}

  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t kAlign{64};
  struct Delete {
    void operator()(std::byte* p) const { ::operator delete(p, kAlign); }
  };
  std::unique_ptr<std::byte, Delete> data_;
  std::size_t size_ = 0;
};

}  // namespace splitq
