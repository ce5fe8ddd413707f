// Who a thread is, and how threads meet. PTX ISA 10 (special registers), 9.7.13 (parallel synchronization),
// 9.7.9 (shfl.sync).
#pragma once

#include "device/entry.hpp"
#include "device/types.hpp"

namespace splitq::device {

inline constexpr u32 kWarpSize = 32;

/// %tid.x
SPLITQ_INSTRUCTION u32 thread_index() SPLITQ_PTX({ return threadIdx.x; });

/// The same, read where it stands: what is made of it is not kept in registers from earlier uses.
SPLITQ_INSTRUCTION u32 thread_index_here() SPLITQ_PTX({
  u32 x;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
  return x;
});

/// %ctaid
SPLITQ_INSTRUCTION u32 block_index_x() SPLITQ_PTX({ return blockIdx.x; });
SPLITQ_INSTRUCTION u32 block_index_y() SPLITQ_PTX({ return blockIdx.y; });
SPLITQ_INSTRUCTION u32 block_index_z() SPLITQ_PTX({ return blockIdx.z; });

/// %nctaid.x
SPLITQ_INSTRUCTION u32 grid_size_x() SPLITQ_PTX({ return gridDim.x; });

/// bar.sync 0 (9.7.13, bar): all threads of the block.
SPLITQ_INSTRUCTION void bar_sync() SPLITQ_PTX({ asm volatile("bar.sync 0;" ::: "memory"); });

/// bar.sync id, count: `count` threads, a multiple of the warp size; id 0 to 15, 0 being bar_sync()'s.
SPLITQ_INSTRUCTION void bar_sync(u32 id, u32 count) SPLITQ_PTX({
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory");
});

/// bar.red.or.pred 0 (9.7.13, bar): bar.sync 0, and true in every thread if `predicate` is in one.
SPLITQ_INSTRUCTION bool bar_red_or(bool predicate) SPLITQ_PTX({
  u32 result;
  asm volatile("{.reg .pred p, q; setp.ne.u32 p, %1, 0; bar.red.or.pred q, 0, p; selp.u32 %0, 1, 0, q;}"
               : "=r"(result)
               : "r"(static_cast<u32>(predicate))
               : "memory");
  return result != 0;
});

/// bar.warp.sync (9.7.13, bar.warp.sync): the warp; orders its accesses to memory.
SPLITQ_INSTRUCTION void bar_warp_sync() SPLITQ_PTX({ asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); });

/// shfl.sync.bfly.b32 (9.7.9, shfl.sync): the value of lane (own lane ^ mask).
SPLITQ_INSTRUCTION u32 shfl_sync_bfly(u32 value, u32 mask) SPLITQ_PTX({
  u32 result;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(result) : "r"(value), "r"(mask));
  return result;
});
SPLITQ_INSTRUCTION float shfl_sync_bfly(float value, u32 mask) SPLITQ_PTX({
  float result;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(result) : "f"(value), "r"(mask));
  return result;
});

/// shfl.sync.idx.b32: the value of lane (lane & 31).
SPLITQ_INSTRUCTION u32 shfl_sync_idx(u32 value, u32 lane) SPLITQ_PTX({
  u32 result;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(result) : "r"(value), "r"(lane));
  return result;
});
SPLITQ_INSTRUCTION float shfl_sync_idx(float value, u32 lane) SPLITQ_PTX({
  float result;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(result) : "f"(value), "r"(lane));
  return result;
});

/// vote.sync.any.pred (9.7.13, vote.sync): true in every lane if it is in one.
SPLITQ_INSTRUCTION bool vote_any(bool predicate) SPLITQ_PTX({
  u32 result;
  asm volatile("{.reg .pred p, q; setp.ne.u32 p, %1, 0; vote.sync.any.pred q, p, 0xffffffff; selp.u32 %0, 1, 0, q;}"
               : "=r"(result)
               : "r"(static_cast<u32>(predicate)));
  return result != 0;
});

}  // namespace splitq::device
