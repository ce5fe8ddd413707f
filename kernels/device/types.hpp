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

/// A where kFirst, else B.
template <bool kFirst, class A, class B>
struct SelectOf {
  using Type = A;
};
template <class A, class B>
struct SelectOf<false, A, B> {
  using Type = B;
};
template <bool kFirst, class A, class B>
using Select = typename SelectOf<kFirst, A, B>::Type;

template <class A, class B>
inline constexpr bool kSame = false;
template <class A>
inline constexpr bool kSame<A, A> = true;

}  // namespace splitq::device
