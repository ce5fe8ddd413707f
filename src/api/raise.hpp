// Statuses become exceptions here and nowhere else.
#pragma once

#include "problem/status.hpp"

namespace splitq {

inline void raise_unless_ok(const Status& status) {
  if (!status.ok()) throw Error(status.code, status.message);
}

}  // namespace splitq
