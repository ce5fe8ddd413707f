// The .npy reader on files that NumPy writes, and on files that nobody should.
#include "npy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace splitq::npy {
namespace {

Array parse_text(const std::string& file) { return parse(std::as_bytes(std::span(file.data(), file.size()))); }

std::string prefix(int major, std::size_t length) {
  std::string out = "\x93NUMPY";
  out += {static_cast<char>(major), '\0'};
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) out += static_cast<char>(length >> (8 * i) & 0xff);
  return out;
}

std::string file_of(const std::string& dict, const std::string& data, int major = 1) {
  return prefix(major, dict.size()) + dict + data;
}

std::string message(const std::string& file) {
  try {
    parse_text(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Npy, WritesWhatNumPyWrites) {
  // numpy.save of numpy.zeros((2, 3), "float32"), NumPy 2.4: header of 128 bytes.
  std::string expected = std::string("\x93NUMPY\x01\x00\x76\x00", 10);
  expected += "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  expected.resize(127, ' ');
  expected += '\n';
  const std::int64_t shape[] = {2, 3};
  EXPECT_EQ(make_header(Type::kFloat32, shape), expected);
}

TEST(Npy, ReadsEveryTypeBack) {
  for (const Type type : {Type::kFloat16, Type::kFloat32, Type::kFloat64, Type::kInt32, Type::kInt64, Type::kBool}) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {5}, {0}, {2, 3}, {2, 0, 3}, {1, 2, 3, 4}}) {
      std::size_t count = 1;
      for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
      std::string data(count * size_of(type), '\0');
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 37);
      const std::string header = make_header(type, shape);
      EXPECT_EQ(header.size() % 64, 0u);
      const Array array = parse_text(header + data);
      EXPECT_EQ(array.header.type, type);
      EXPECT_EQ(array.header.shape, shape);
      EXPECT_FALSE(array.header.fortran_order);
      ASSERT_EQ(array.data.size(), data.size());
      EXPECT_TRUE(std::equal(data.begin(), data.end(), reinterpret_cast<const char*>(array.data.data())));
    }
  }
}

TEST(Npy, Strides) {
  Header header{.type = Type::kFloat32, .shape = {2, 3, 4}};
  EXPECT_EQ(header.strides(), (std::vector<std::int64_t>{12, 4, 1}));
  header.fortran_order = true;
  EXPECT_EQ(header.strides(), (std::vector<std::int64_t>{1, 2, 6}));
}

TEST(Npy, AcceptsWhatTheFormatAllows) {
  const std::string data(8, 'x');
  for (const char* dict : {
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n",
           "{\"shape\": (2,), \"descr\": \"<f4\", \"fortran_order\": True}",
           "{'descr':'<f4','fortran_order':False,'shape':(1,2)}    \n",
           "{ 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 1L , 2L , ) , }",
       }) {
    for (const int major : {1, 2, 3}) EXPECT_EQ(message(file_of(dict, data, major)), "accepted") << dict;
  }
  EXPECT_EQ(message(file_of("{'descr': '|b1', 'fortran_order': False, 'shape': (8,)}", data)), "accepted");
}

struct Malformed {
  std::string file;
  const char* said;  // a part of the message
};

TEST(Npy, RefusesMalformedFilesAndSaysWhy) {
  const auto with = [](const std::string& descr, const std::string& shape, const std::string& data = "") {
    return file_of("{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + "}", data);
  };
  const std::string good = file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", std::string(8, 'x'));
  const std::vector<Malformed> cases{
      {"", "not a .npy file"},
      {"PK\x03\x04 a zip file", "not a .npy file"},
      {good.substr(0, 5), "not a .npy file"},
      {good.substr(0, 8), "ends after 8 bytes"},
      {good.substr(0, 20), "header should be"},
      {good.substr(0, good.size() - 1), "takes 8 bytes, but the file has 7"},
      {good + "y", "takes 8 bytes, but the file has 9"},
      {file_of("{}", "", 4), "version 4.0; versions 1.0, 2.0 and 3.0"},
      {file_of("{}", ""), "lacks 'descr'"},
      {file_of("{'descr': '<f4', 'shape': ()}", "xxxx"), "lacks 'fortran_order'"},
      {file_of("{'descr': '<f4', 'fortran_order': True}", "xxxx"), "lacks 'shape'"},
      {file_of("{'descr': '<f4', 'descr': '<f4'}", ""), "names 'descr' twice"},
      {file_of("{'color': 'red'}", ""), "has the key 'color'"},
      {file_of("[1, 2]", ""), "should have '{' before '[1, 2]'"},
      {file_of("{'descr': '<f4', 'fortran_order': Maybe}", ""), "it should be True or False"},
      {file_of("{'descr", ""), "quote that does not end"},
      {file_of("{descr: '<f4'}", ""), "quoted name"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': ()} + 1", "xxxx"), "goes on behind its dict"},
      {with("'>f4'", "(2,)"), "big-endian ('>f4'); save the array as little-endian ('<f4')"},
      {with("'<c8'", "(2,)"), "the element type is '<c8'; float16"},
      {with("'|u1'", "(2,)"), "the element type is '|u1'"},
      {with("'|f4'", "(2,)"), "the element type is '|f4'"},
      {with("''", "(2,)"), "the element type is empty"},
      {with("'\x1b[31m'", "(2,)"), "the element type is '?[31m'"},
      {with("[('x', '<f4')]", "(2,)"), "structured"},
      {with("'<f4'", "(-2,)"), "has '-2,)}' where a size should be"},
      {with("'<f4'", "(2.5,)"), "should have ')' before '.5,)}'"},
      {with("'<f4'", "2"), "should have '(' before '2}'"},
      {with("'<f4'", "(99999999999999999999,)"), "too large"},
      {with("'<f4'", "(4294967296, 4294967296)"), "more elements than memory can hold"},
      {with("'<f4'", "(0, 4294967296, 4294967296)"), "more elements than memory can hold"},
      {with("'<f4'", "(9223372036854775807,)"), "more elements than memory can hold"},
      {with("'<f4'", "(1000000000000,)"), "takes 4000000000000 bytes, but the file has 0"},
      {with("'<f4'", "(" + std::string(66, '1') + ")"), "too large"},
      {prefix(2, 0xffffffff), "the header is 4294967295 bytes long"},
  };
  for (const Malformed& c : cases) EXPECT_NE(message(c.file).find(c.said), std::string::npos) << message(c.file);

  std::string deep = "(";
  for (int i = 0; i < 33; ++i) deep += "1,";
  EXPECT_NE(message(with("'<f4'", deep + ")")).find("more than 32 dimensions"), std::string::npos);
}

TEST(Npy, EveryTruncationIsRefused) {
  const std::int64_t shape[] = {3, 5};
  const std::string whole = make_header(Type::kFloat64, shape) + std::string(3 * 5 * 8, 'x');
  EXPECT_EQ(message(whole), "accepted");
  for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_NE(message(whole.substr(0, n)), "accepted") << n;
}

}  // namespace
}  // namespace splitq::npy
