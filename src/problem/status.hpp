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
