// Warp-level matrices. PTX ISA 9.7.14 (warp-level matrix multiply-accumulate): ldmatrix, mma.
//
// With g = lane / 4 and t = lane % 4, a fragment's registers hold, low half first (9.7.14.5.8):
//   A 16x16   a[0] (g, 2t..2t+1)   a[1] (g+8, 2t..)   a[2] (g, 2t+8..)   a[3] (g+8, 2t+8..)
//   B 16x8    b[0] (2t..2t+1, g)   b[1] (2t+8.., g)
//   D 16x8    d[0], d[1] (g, 2t..2t+1)   d[2], d[3] (g+8, 2t..2t+1), fp32
#pragma once

#include "device/entry.hpp"
#include "device/types.hpp"

namespace splitq::device {

/// ldmatrix.sync.aligned.m8n8.b16: lane 8i + r gives the address of row r of matrix i (16 bytes, aligned); r[i] gets
/// columns 2t, 2t+1 of row g of matrix i, or with .trans rows 2t, 2t+1 of column g. In x2, lanes 0 to 15 give addresses.
SPLITQ_INSTRUCTION void ldmatrix_x4(u32 (&r)[4], u32 shared) SPLITQ_PTX({
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared));
});
SPLITQ_INSTRUCTION void ldmatrix_x4_trans(u32 (&r)[4], u32 shared) SPLITQ_PTX({
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared));
});
SPLITQ_INSTRUCTION void ldmatrix_x2(u32 (&r)[2], u32 shared) SPLITQ_PTX({
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(shared));
});
SPLITQ_INSTRUCTION void ldmatrix_x2_trans(u32 (&r)[2], u32 shared) SPLITQ_PTX({
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(shared));
});

/// mma.sync.aligned.m16n8k16.row.col.f32.T.T.f32: d += a b. On sm_75, two m16n8k8 of fp16; bf16 does not exist there.
template <class T>
SPLITQ_INSTRUCTION void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) SPLITQ_PTX({
  static_assert(kSame<T, Fp16> || kHasBf16, "bf16 needs sm_80");
  if constexpr (kSame<T, Bf16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else if constexpr (kArchitecture >= 800) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    for (int k = 0; k < 2; ++k) {
      asm volatile(
          "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(a[2 * k]), "r"(a[2 * k + 1]), "r"(b[k]));
    }
  }
});

}  // namespace splitq::device
