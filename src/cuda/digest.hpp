// XXH3 over text: 128 bits, as 32 hexadecimal digits. Tells contents apart; it is no signature.
#pragma once

#include <string>
#include <string_view>

namespace splitq::cuda {

inline constexpr std::size_t kDigestLength = 32;

std::string digest(std::string_view bytes);

}  // namespace splitq::cuda
