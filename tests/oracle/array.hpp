// A dense row-major array of doubles: the only container the oracle knows.
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

namespace oracle {

struct Array {
  std::vector<std::int64_t> shape;
  std::vector<double> values;

  Array() = default;
  explicit Array(std::vector<std::int64_t> shape_, double fill = 0.0) : shape(std::move(shape_)) {
    const auto count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    values.assign(static_cast<std::size_t>(count), fill);
  }

  bool given() const { return !shape.empty(); }
  std::int64_t size() const { return static_cast<std::int64_t>(values.size()); }

  template <class... Index>
  double& operator()(Index... index) {
    return values[offset({static_cast<std::int64_t>(index)...})];
  }
  template <class... Index>
  double operator()(Index... index) const {
    return values[offset({static_cast<std::int64_t>(index)...})];
  }

 private:
  std::size_t offset(std::initializer_list<std::int64_t> index) const {
    std::int64_t result = 0;
    auto extent = shape.begin();
    for (const std::int64_t i : index) result = result * *extent++ + i;
    return static_cast<std::size_t>(result);
  }
};

}  // namespace oracle
