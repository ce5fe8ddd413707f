// Fixed-width integers and the bits of a float. NVRTC has no <cstdint>.
#pragma once

namespace splitq::device {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

/// 16 bytes: what one thread moves at most in one access.
struct alignas(16) V4 {
  u32 x, y, z, w;
};

/// Element types of a matrix operand, as tags.
struct Fp16 {};
struct Bf16 {};

template <class A, class B>
inline constexpr bool kSame = false;
template <class A>
inline constexpr bool kSame<A, A> = true;

}  // namespace splitq::device
