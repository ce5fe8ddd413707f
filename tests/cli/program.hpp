// The built program, run with real files in a folder of its own.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "npy.hpp"
#include "splitq/splitq.hpp"

namespace splitq::testing {

struct Outcome {
  int status = -1;  // exit status; -1 where a signal ended it
  std::string out, err;
};

using Shape = std::vector<std::int64_t>;

struct Half {  // fp16 as stored
  std::uint16_t bits;
  bool operator==(const Half&) const = default;
};

template <class T>
constexpr npy::Type npy_type() {
  if constexpr (std::is_same_v<T, Half>)
    return npy::Type::kFloat16;
  else if constexpr (std::is_same_v<T, float>)
    return npy::Type::kFloat32;
  else if constexpr (std::is_same_v<T, double>)
    return npy::Type::kFloat64;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return npy::Type::kInt32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return npy::Type::kInt64;
  else
    return npy::Type::kBool;  // std::uint8_t
}

template <class T>
struct Values {
  Shape shape;
  std::vector<T> data;
};

Values<float> random_values(const Shape& shape, unsigned seed);

/// A view of values as the library takes them.
TensorView view_of(Values<float>& values);
TensorView view_of(Values<std::int32_t>& values);

class Program : public ::testing::Test {
 protected:
  Program();
  ~Program() override;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Runs `splitq ARGS...` in the folder.
  Outcome run(const std::vector<std::string>& args) const;

  /// The names of all files in the folder, sorted.
  std::vector<std::string> files() const;

  void write_bytes(const std::string& name, const std::string& bytes) const;
  std::string read_bytes(const std::string& name) const;

  template <class T>
  void write(const std::string& name, const Values<T>& values) const {
    std::string bytes = npy::make_header(npy_type<T>(), values.shape);
    bytes.append(reinterpret_cast<const char*>(values.data.data()), values.data.size() * sizeof(T));
    write_bytes(name, bytes);
  }

  template <class T>
  Values<T> read(const std::string& name) const {
    const npy::Array array = npy::read(path(name));
    EXPECT_EQ(array.header.type, npy_type<T>()) << name;
    Values<T> values{array.header.shape, std::vector<T>(array.header.data_bytes / sizeof(T))};
    if (!values.data.empty()) std::memcpy(values.data.data(), array.data.data(), values.data.size() * sizeof(T));
    return values;
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace splitq::testing
