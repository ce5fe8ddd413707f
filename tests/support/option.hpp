// Every option of a call, as a change of a case: alone, and in pairs, they are the matrix that each backend is tested on.
#pragma once

#include <ostream>
#include <span>

#include "support/attention_case.hpp"

namespace splitq::testing {

struct Option {
  const char* name;
  void (*apply)(AttentionCase&);
};
inline void PrintTo(const Option& value, std::ostream* out) { *out << value.name; }

/// In an order in which each may build upon the ones before: lengths after packing, pages at last.
std::span<const Option> all_options();

/// A small case with one option, or two.
AttentionCase case_with(DType dtype, const Option& first, const Option& second);

}  // namespace splitq::testing
