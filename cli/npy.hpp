// NumPy's .npy files, format versions 1.0 to 3.0: the element types that attention needs, any rank and either order.
// A file is untrusted: nothing is allocated before its size agrees with its header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "buffer.hpp"

namespace splitq::npy {

enum class Type { kFloat16, kFloat32, kFloat64, kInt32, kInt64, kBool };

const char* name_of(Type type);  // as NumPy writes it: "float16", ...
std::size_t size_of(Type type);  // bytes of one element

/// The message says what the file has and what it should have; the caller puts the argument's name before it.
class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Header {
  Type type = Type::kFloat32;
  std::vector<std::int64_t> shape;
  bool fortran_order = false;   // the first index runs fastest
  std::size_t data_offset = 0;  // in the file
  std::size_t data_bytes = 0;

  std::vector<std::int64_t> strides() const;  // in elements
};

struct Array {
  Header header;
  Buffer data;  // elements in the order of the file
};

inline constexpr std::size_t kMaxHeaderBytes = 65536;

/// `prefix`: the file's first min(file_bytes, kMaxHeaderBytes) bytes.
Header parse_header(std::span<const std::byte> prefix, std::uint64_t file_bytes);

Array parse(std::span<const std::byte> file);
Array read(const std::string& path);

/// What stands before the elements of a row-major array: magic, version 1.0 and header, padded to 64 bytes.
std::string make_header(Type type, std::span<const std::int64_t> shape);

}  // namespace splitq::npy
