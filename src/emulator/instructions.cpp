// kernels/device as the emulator carries it out: threads, memory, arithmetic. Matrices are in matrix.cpp.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/convert.hpp"
#include "device/math.hpp"
#include "device/memory.hpp"
#include "device/thread.hpp"
#include "emulator/block.hpp"
#include "emulator/element_of.hpp"

namespace splitq::emulator {

void read_global(void* to, const void* from, unsigned bytes) { Block::current().read_global(to, from, bytes); }
void write_global(void* to, const void* from, unsigned bytes) { Block::current().write_global(to, from, bytes); }

}  // namespace splitq::emulator

namespace splitq::device {
namespace {

using emulator::Block;
using emulator::kLanes;

Block& block() { return Block::current(); }
emulator::Counters& counters() { return Block::current().counters(); }

/// Every lane gets the value of lane source(own lane).
template <class T, class Source>
T shuffle(const char* instruction, T value, u32 operand, Source source) {
  struct Lane {
    T in, out;
    u32 operand;
  } own{value, {}, operand};
  block().meet(instruction, &own, [&](Block::Operands& lanes) {
    for (u32 l = 0; l < kLanes; ++l) {
      auto& lane = *static_cast<Lane*>(lanes[l]);
      lane.out = static_cast<Lane*>(lanes[source(l, lane.operand) % kLanes])->in;
    }
    ++counters().shuffles;
  });
  return own.out;
}

template <class T>
T bfly(T value, u32 mask) {
  return shuffle("shfl.sync.bfly", value, mask, [](u32 lane, u32 m) { return lane ^ m; });
}
template <class T>
T idx(T value, u32 lane) {
  return shuffle("shfl.sync.idx", value, lane, [](u32, u32 from) { return from; });
}

template <class T>
T load_shared(u32 address) {
  T value;
  block().read_shared(address, &value, sizeof value);
  return value;
}
template <class T>
void store_shared(u32 address, T value) {
  block().write_shared(address, &value, sizeof value);
}

template <class T>
T atom_add(T* address, T value) {
  block().maybe_yield();
  T before;
  block().read_global(&before, address, sizeof before);
  const T after = before + value;
  block().write_global(address, &after, sizeof after);
  return before;
}

/// .ftz
float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

}  // namespace

// thread.hpp

u32 thread_index() { return block().thread(); }
u32 thread_index_here() { return block().thread(); }
u32 block_index_x() { return block().index().x; }
u32 block_index_y() { return block().index().y; }
u32 block_index_z() { return block().index().z; }
u32 grid_size_x() { return block().grid().x; }

void bar_sync() { block().barrier(0, 0); }
void bar_sync(u32 id, u32 count) { block().barrier(id, count); }
bool bar_red_or(bool predicate) { return block().reduce_or(predicate); }
void bar_warp_sync() { block().warp_barrier(); }

u32 shfl_sync_bfly(u32 value, u32 mask) { return bfly(value, mask); }
float shfl_sync_bfly(float value, u32 mask) { return bfly(value, mask); }
u32 shfl_sync_idx(u32 value, u32 lane) { return idx(value, lane); }
float shfl_sync_idx(float value, u32 lane) { return idx(value, lane); }

bool vote_any(bool predicate) {
  bool value = predicate;
  block().meet("vote.sync.any", &value, [](Block::Operands& lanes) {
    const bool any = std::any_of(lanes.begin(), lanes.end(), [](void* lane) { return *static_cast<bool*>(lane); });
    for (void* lane : lanes) *static_cast<bool*>(lane) = any;
    ++counters().votes;
  });
  return value;
}

// memory.hpp

u32 shared_base() { return emulator::kSharedBase; }

u32 ld_shared_u32(u32 address) { return load_shared<u32>(address); }
float ld_shared_f32(u32 address) { return load_shared<float>(address); }
V4 ld_shared_v4(u32 address) { return load_shared<V4>(address); }
void st_shared_u32(u32 address, u32 value) { store_shared(address, value); }
void st_shared_f32(u32 address, float value) { store_shared(address, value); }
void st_shared_v4(u32 address, V4 value) { store_shared(address, value); }

void cp_async_cg_16(u32 shared, const void* global, u32 source_bytes) {
  block().copy_async(shared, global, 16, source_bytes);
}
void cp_async_commit_group() { block().commit_copies(); }
template <int N>
void cp_async_wait_group() {
  block().wait_copies(N);
}
template void cp_async_wait_group<0>();
template void cp_async_wait_group<1>();
template void cp_async_wait_group<2>();
template void cp_async_wait_group<3>();
template void cp_async_wait_group<4>();
template void cp_async_wait_group<5>();
template void cp_async_wait_group<6>();
template void cp_async_wait_group<7>();

float atom_add_global(float* address, float value) { return atom_add(address, value); }
u32 atom_add_global(u32* address, u32 value) { return atom_add(address, value); }

// math.hpp

float ex2_approx_ftz(float x) {
  ++counters().ex2;
  return flushed(std::exp2(flushed(x)));
}
float lg2_approx(float x) {
  ++counters().lg2;
  return std::log2(x);
}
float rcp_approx(float x) {
  ++counters().rcp;
  return 1.0f / x;
}
float fma_rn(float a, float b, float c) {
  ++counters().fma;
  return std::fma(a, b, c);
}
float max(float a, float b) {
  ++counters().max_min;
  return std::fmax(a, b);
}
float min(float a, float b) {
  ++counters().max_min;
  return std::fmin(a, b);
}

// convert.hpp

template <class T>
u16 convert(float x) {
  ++counters().convert;
  return emulator::element_from_float<T>(x);
}
template <class T>
float to_float(u16 x) {
  ++counters().convert;
  return emulator::element_to_float<T>(x);
}
template <class T>
u32 pack(float low, float high) {
  ++counters().convert;
  return emulator::element_from_float<T>(low) | static_cast<u32>(emulator::element_from_float<T>(high)) << 16;
}
template u16 convert<Fp16>(float);
template u16 convert<Bf16>(float);
template float to_float<Fp16>(u16);
template float to_float<Bf16>(u16);
template u32 pack<Fp16>(float, float);
template u32 pack<Bf16>(float, float);

}  // namespace splitq::device
