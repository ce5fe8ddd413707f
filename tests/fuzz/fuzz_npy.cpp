// The .npy reader on any bytes: it throws npy::Error or returns an array whose data agree with its header.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <span>
#include <string>

#include "npy.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void read(std::span<const std::byte> file) {
  try {
    const splitq::npy::Array array = splitq::npy::parse(file);
    const splitq::npy::Header& header = array.header;
    require(array.data.size() == header.data_bytes && header.data_offset + header.data_bytes == file.size());
    // Every element that shape and strides speak of lies in the data.
    const auto strides = header.strides();
    std::size_t last = 0;
    bool empty = false;
    for (std::size_t d = 0; d < header.shape.size(); ++d) {
      empty |= header.shape[d] == 0;
      if (header.shape[d] > 0) last += static_cast<std::size_t>((header.shape[d] - 1) * strides[d]);
    }
    require(empty ? header.data_bytes == 0 : (last + 1) * size_of(header.type) == header.data_bytes);
    // What is written of it is read back as the same.
    const std::string written = splitq::npy::make_header(header.type, header.shape);
    const auto again = splitq::npy::parse_header(std::as_bytes(std::span(written)), written.size() + header.data_bytes);
    require(again.type == header.type && again.shape == header.shape && !again.fortran_order);
  } catch (const splitq::npy::Error& error) {
    require(*error.what() != '\0');
  }
}

constexpr const char* kWords[] = {"{'descr': '<f4', 'fortran_order': False, 'shape': (",
                                  "{'fortran_order': True, 'shape': (",
                                  "), }\n",
                                  ", 'descr': ",
                                  "{",
                                  "}",
                                  "(",
                                  ")",
                                  ",",
                                  ", ",
                                  ": ",
                                  "'",
                                  "\n",
                                  " ",
                                  "L",
                                  "-",
                                  "[",
                                  "'descr'",
                                  "'fortran_order'",
                                  "'shape'",
                                  "True",
                                  "False",
                                  "'<f2'",
                                  "'<f8'",
                                  "'>i4'",
                                  "'<i8'",
                                  "'|b1'",
                                  "0",
                                  "1",
                                  "2",
                                  "3",
                                  "4611686018427387904",
                                  "9223372036854775807"};

/// Magic, version and the length of the dict: up to the first end of line.
std::string with_prefix(int major, const std::string& content) {
  const std::size_t length = std::min(content.find('\n'), content.size() - 1) + 1;  // 0 for no content
  std::string file = "\x93NUMPY";
  file += {static_cast<char>(major), '\0'};
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) file += static_cast<char>(length >> (8 * i) & 0xff);
  return file + content;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span input(data, size);
  read(std::as_bytes(input));

  // The same bytes as dict and data behind a good prefix, and as words that headers are made of: not every input
  // should die of its first characters.
  const std::string text(input.begin(), input.end());
  std::string words;
  for (const std::uint8_t byte : input) words += byte < std::size(kWords) ? kWords[byte] : std::string(1, char(byte));
  for (const std::string& content : {text, words}) {
    for (const int major : {1, 2}) {
      const std::string file = with_prefix(major, content);
      read(std::as_bytes(std::span(file)));
    }
  }
  return 0;
}
