// A status inside the library; exceptions are made from it in src/api alone.
#pragma once

#include <string>
#include <utility>

#include "splitq/splitq.hpp"

namespace splitq {

struct [[nodiscard]] Status {
  StatusCode code = StatusCode::kOk;
  std::string message;

  bool ok() const { return code == StatusCode::kOk; }
  static Status invalid(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }
  static Status unsupported(std::string message) { return {StatusCode::kUnsupported, std::move(message)}; }
};

}  // namespace splitq

/// Leaves the function with the first status that is not ok.
#define SPLITQ_TRY(expression)                                                  \
  do {                                                                          \
    if (::splitq::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)
