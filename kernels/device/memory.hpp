// Memory. Shared memory is addressed by bytes (.shared state space, 32 bits), global memory by pointers.
// PTX ISA 9.7.9 (ld, st, cp.async), 9.7.13 (atom).
#pragma once

#include "device/entry.hpp"
#include "device/types.hpp"

#if defined(SPLITQ_EMULATOR)
namespace splitq::emulator {
void read_global(void* to, const void* from, unsigned bytes);
void write_global(void* to, const void* from, unsigned bytes);
}  // namespace splitq::emulator
#else
extern __shared__ __align__(1024) unsigned char splitq_dynamic_shared[];
#endif

namespace splitq::device {

/// Address of the block's dynamic shared memory.
SPLITQ_INSTRUCTION u32 shared_base()
    SPLITQ_PTX({ return static_cast<u32>(__cvta_generic_to_shared(splitq_dynamic_shared)); });

/// ld.shared (9.7.9, ld). Volatile: the order with cp.async, st.shared and barriers is the program's.
SPLITQ_INSTRUCTION u32 ld_shared_u32(u32 address) SPLITQ_PTX({
  u32 value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address));
  return value;
});
SPLITQ_INSTRUCTION float ld_shared_f32(u32 address) SPLITQ_PTX({
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address));
  return value;
});
SPLITQ_INSTRUCTION V4 ld_shared_v4(u32 address) SPLITQ_PTX({
  V4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address));
  return v;
});

/// st.shared (9.7.9, st)
SPLITQ_INSTRUCTION void st_shared_u32(u32 address, u32 value) SPLITQ_PTX({
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
});
SPLITQ_INSTRUCTION void st_shared_f32(u32 address, float value) SPLITQ_PTX({
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
});
SPLITQ_INSTRUCTION void st_shared_v4(u32 address, V4 v) SPLITQ_PTX({
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
});

/// ld.global, st.global (9.7.9, ld, st) of 1, 2, 4, 8 or 16 bytes; the address is a multiple of the size.
template <class T>
SPLITQ_DEVICE T ld_global(const T* from) {
#if defined(SPLITQ_EMULATOR)
  T value;
  emulator::read_global(&value, from, sizeof(T));
  return value;
#else
  return *from;
#endif
}
template <class T>
SPLITQ_DEVICE void st_global(T* to, T value) {
#if defined(SPLITQ_EMULATOR)
  emulator::write_global(to, &value, sizeof(T));
#else
  *to = value;
#endif
}
SPLITQ_DEVICE V4 ld_global_v4(const void* from) { return ld_global(static_cast<const V4*>(from)); }
SPLITQ_DEVICE void st_global_v4(void* to, V4 value) { st_global(static_cast<V4*>(to), value); }

/// cp.async.cg.shared.global 16, source_bytes (9.7.9, cp.async): copies source_bytes (0 or 16) bytes and fills up with
/// zeros; with 0, `global` is not read. Before sm_80 it is a load and a store, which the barrier that follows the wait
/// orders all the same.
SPLITQ_INSTRUCTION void cp_async_cg_16(u32 shared, const void* global, u32 source_bytes) SPLITQ_PTX({
  if constexpr (kHasCpAsync) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(source_bytes)
                 : "memory");
  } else {
    st_shared_v4(shared, source_bytes != 0 ? ld_global_v4(global) : V4{0, 0, 0, 0});
  }
});

/// cp.async.commit_group: the copies issued so far become this thread's next group.
SPLITQ_INSTRUCTION void cp_async_commit_group() SPLITQ_PTX({
  if constexpr (kHasCpAsync) asm volatile("cp.async.commit_group;" ::: "memory");
});

/// cp.async.wait_group N: at most the N newest groups of this thread are still under way.
template <int N>
SPLITQ_INSTRUCTION void cp_async_wait_group() SPLITQ_PTX({
  if constexpr (kHasCpAsync) asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
});

/// atom.global.add (9.7.13, atom), relaxed; returns what was there.
SPLITQ_INSTRUCTION float atom_add_global(float* address, float value) SPLITQ_PTX({
  float before;
  asm volatile("atom.global.add.f32 %0, [%1], %2;" : "=f"(before) : "l"(address), "f"(value) : "memory");
  return before;
});
SPLITQ_INSTRUCTION u32 atom_add_global(u32* address, u32 value) SPLITQ_PTX({
  u32 before;
  asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(address), "r"(value) : "memory");
  return before;
});

}  // namespace splitq::device
