#include "npy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

namespace splitq::npy {
namespace {

struct TypeRow {
  Type type;
  const char* name;
  const char* descr;  // without the byte order
  std::size_t size;
};

constexpr std::array kTypes{
    TypeRow{Type::kFloat16, "float16", "f2", 2}, TypeRow{Type::kFloat32, "float32", "f4", 4},
    TypeRow{Type::kFloat64, "float64", "f8", 8}, TypeRow{Type::kInt32, "int32", "i4", 4},
    TypeRow{Type::kInt64, "int64", "i8", 8},     TypeRow{Type::kBool, "bool", "b1", 1},
};

const TypeRow& row(Type type) {
  return *std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& r) { return r.type == type; });
}

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxRank = 32;         // NumPy's own limit
constexpr std::size_t kAlignment = 64;       // of the data within the file
constexpr std::size_t kVersion1Prefix = 10;  // magic, version, two bytes of header length

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// What a file says of itself, made safe to show: at most 40 bytes, printable ASCII.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 40)) out += c >= 0x20 && c < 0x7f ? c : '?';
  return text.size() > 40 ? out + "..." : out;
}

Type type_of(std::string_view descr) {
  constexpr const char* kReadable = "float16, float32, float64, int32, int64 and bool, little-endian, can be read";
  if (descr.empty()) fail("the element type is empty; {}", kReadable);
  const auto* known =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& r) { return descr.substr(1) == r.descr; });
  const bool order_matters = known != kTypes.end() && known->size > 1;
  if (order_matters && descr[0] == '>') {
    fail("the elements are big-endian ('{}'); save the array as little-endian ('<{}')", descr, known->descr);
  }
  // '=' is the byte order of the machine that wrote the file, which the file does not record.
  const bool order_fits = descr[0] == '<' || (!order_matters && descr[0] == '|');
  if (known == kTypes.end() || !order_fits) fail("the element type is '{}'; {}", shown(descr), kReadable);
  return known->type;
}

/// Reads the Python dict literal of a header: the three keys, each once, in any order.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  Header parse() {
    std::optional<Type> type;
    std::optional<bool> fortran_order;
    std::optional<std::vector<std::int64_t>> shape;
    const auto once = [](auto& value, const char* key, auto&& read) {
      if (value) fail("the header names '{}' twice", key);
      value = read();
    };
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        once(type, "descr", [&] { return type_of(descr()); });
      } else if (key == "fortran_order") {
        once(fortran_order, "fortran_order", [&] { return boolean(); });
      } else if (key == "shape") {
        once(shape, "shape", [&] { return tuple(); });
      } else {
        fail("the header has the key '{}'; it should have descr, fortran_order and shape", shown(key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!rest_.empty()) fail("the header goes on behind its dict: '{}'", shown(rest_));
    if (!type) fail("the header lacks 'descr'");
    if (!fortran_order) fail("the header lacks 'fortran_order'");
    if (!shape) fail("the header lacks 'shape'");
    return {.type = *type, .shape = std::move(*shape), .fortran_order = *fortran_order};
  }

 private:
  void skip_space() {
    while (!rest_.empty() && std::string_view(" \t\r\n").find(rest_[0]) != std::string_view::npos)
      rest_.remove_prefix(1);
  }

  bool accept(char c) {
    skip_space();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail("the header should have '{}' before '{}'", c, shown(rest_));
  }

  std::string_view quoted() {
    skip_space();
    const char quote = rest_.empty() ? '\0' : rest_[0];
    if (quote != '\'' && quote != '"') fail("the header should have a quoted name before '{}'", shown(rest_));
    const std::size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) fail("the header has a quote that does not end: '{}'", shown(rest_));
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::string_view descr() {
    skip_space();
    if (!rest_.empty() && rest_[0] == '[')
      fail("the array is structured (it has fields); it should have plain numbers");
    return quoted();
  }

  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(word.size());
        return value;
      }
    }
    fail("the header's fortran_order is '{}'; it should be True or False", shown(rest_));
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> shape;
    expect('(');
    while (!accept(')')) {
      if (shape.size() == kMaxRank) fail("the shape has more than {} dimensions", kMaxRank);
      skip_space();
      std::int64_t extent = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (error == std::errc::result_out_of_range) fail("the shape's '{}' is too large", shown(rest_));
      if (error != std::errc{} || extent < 0) fail("the shape has '{}' where a size should be", shown(rest_));
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      accept('L');  // Python 2's long
      shape.push_back(extent);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  std::string_view rest_;
};

/// Bytes of all elements. An empty array's other extents must multiply without overflow too, so that strides can.
std::uint64_t bytes_of(const Header& header) {
  std::int64_t bytes = static_cast<std::int64_t>(size_of(header.type));
  bool empty = false;
  for (const std::int64_t extent : header.shape) {
    empty |= extent == 0;
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes)) {
      fail("the shape ({}) has more elements than memory can hold", fmt::join(header.shape, ", "));
    }
  }
  return empty ? 0 : static_cast<std::uint64_t>(bytes);
}

}  // namespace

const char* name_of(Type type) { return row(type).name; }
std::size_t size_of(Type type) { return row(type).size; }

std::vector<std::int64_t> Header::strides() const {
  const std::size_t rank = shape.size();
  std::vector<std::int64_t> strides(rank);
  std::int64_t step = 1;
  for (std::size_t n = 0; n < rank; ++n) {
    const std::size_t d = fortran_order ? n : rank - 1 - n;
    strides[d] = step;
    step *= std::max<std::int64_t>(shape[d], 1);
  }
  return strides;
}

Header parse_header(std::span<const std::byte> prefix, std::uint64_t file_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(prefix.data()), prefix.size());
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(prefix[i]); };
  if (!text.starts_with(kMagic)) fail("not a .npy file: it does not begin with \\x93NUMPY");
  if (text.size() < kVersion1Prefix) fail("the file ends after {} bytes, within its header", text.size());
  const std::size_t major = byte(6);
  if (major < 1 || major > 3 || byte(7) != 0) {
    fail("format version {}.{}; versions 1.0, 2.0 and 3.0 can be read", major, byte(7));
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  const std::size_t begin = 8 + length_bytes;
  if (text.size() < begin) fail("the file ends after {} bytes, within its header", text.size());
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) length |= byte(8 + i) << (8 * i);
  if (length > kMaxHeaderBytes - begin) {
    fail("the header is {} bytes long; at most {} can be read", length, kMaxHeaderBytes - begin);
  }
  if (text.size() < begin + length) {
    fail("the header should be {} bytes long, but the file has {} behind its prefix", length, text.size() - begin);
  }

  Header header = HeaderParser(text.substr(begin, length)).parse();
  header.data_offset = begin + length;
  const std::uint64_t expected = bytes_of(header);
  const std::uint64_t present = file_bytes - header.data_offset;
  if (present != expected) {
    fail("shape ({}) of {} takes {} bytes, but the file has {}", fmt::join(header.shape, ", "), name_of(header.type),
         expected, present);
  }
  header.data_bytes = expected;
  return header;
}

Array parse(std::span<const std::byte> file) {
  Array array{.header = parse_header(file.first(std::min(file.size(), kMaxHeaderBytes)), file.size()), .data = {}};
  array.data = Buffer(array.header.data_bytes);
  std::ranges::copy(file.subspan(array.header.data_offset), array.data.data());
  return array;
}

Array read(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) fail("no such file");
  // A pipe has no size to check the header against, and a directory no content.
  if (!std::filesystem::is_regular_file(status)) fail("not a regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("cannot be opened: {}", std::strerror(errno));
  const std::uint64_t file_bytes = std::filesystem::file_size(path, error);
  if (error) fail("cannot be measured: {}", error.message());

  const auto read_into = [&](const Buffer& bytes) {
    file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file) fail("cannot be read: {}", file.bad() ? std::strerror(errno) : "the file became shorter meanwhile");
  };
  const Buffer prefix(static_cast<std::size_t>(std::min<std::uint64_t>(file_bytes, kMaxHeaderBytes)));
  read_into(prefix);
  Array array{.header = parse_header({prefix.data(), prefix.size()}, file_bytes), .data = {}};
  array.data = Buffer(array.header.data_bytes);
  file.seekg(static_cast<std::streamoff>(array.header.data_offset));
  read_into(array.data);
  return array;
}

std::string make_header(Type type, std::span<const std::int64_t> shape) {
  const TypeRow& r = row(type);
  // A tuple of one element needs its comma; NumPy accepts one behind every element.
  std::string dict =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': (", r.size > 1 ? '<' : '|', r.descr);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    dict += fmt::format("{}{}", shape[d], d + 1 < shape.size() ? ", " : shape.size() == 1 ? "," : "");
  }
  dict += "), }";
  const std::size_t unpadded = kVersion1Prefix + dict.size() + 1;
  dict.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  dict += '\n';
  std::string out(kMagic);
  out += {'\x01', '\x00', static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8)};
  return out + dict;
}

}  // namespace splitq::npy
