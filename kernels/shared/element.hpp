// Types of q, k, v and out. Compiled by host and device alike.
#pragma once

namespace splitq {

enum class Element : int { kFp32, kFp16, kBf16 };

}  // namespace splitq
