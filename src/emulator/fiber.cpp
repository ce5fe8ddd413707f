#include "emulator/fiber.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define SPLITQ_FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SPLITQ_FIBER_ASAN 1
#endif
#endif
#if defined(SPLITQ_FIBER_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace splitq::emulator {
namespace {

constexpr std::size_t kGuardBytes = 4096;  // below the stack: an overflow faults

thread_local Fiber* left = nullptr;  // the fiber that the last switch left

}  // namespace

#if !defined(SPLITQ_FIBER_UCONTEXT)
// swapcontext() makes a system call each time; this is the System V ABI's callee-saved state and nothing else.
extern "C" void splitq_switch_stack(void** save, void* load);
extern "C" void splitq_enter_stack();
asm(R"(
.text
.p2align 4
.type splitq_switch_stack, @function
splitq_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size splitq_switch_stack, . - splitq_switch_stack
.p2align 4
.type splitq_enter_stack, @function
splitq_enter_stack:
  .cfi_startproc
  .cfi_undefined rip
  movq %r12, %rdi
  callq *%r13
  ud2
  .cfi_endproc
.size splitq_enter_stack, . - splitq_enter_stack
)");
#endif

Fiber::Fiber(std::size_t stack_bytes) : stack_bytes_(stack_bytes) {
  void* memory = mmap(nullptr, kGuardBytes + stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, kGuardBytes, PROT_NONE);
  stack_ = static_cast<std::byte*>(memory) + kGuardBytes;
  bottom_ = stack_;
  size_ = stack_bytes;
}

Fiber::~Fiber() {
  forget_frames();
  if (stack_ != nullptr) munmap(stack_ - kGuardBytes, kGuardBytes + stack_bytes_);
}

void Fiber::start(void (*entry)(void*), void* argument) {
  forget_frames();
  entry_ = entry;
  argument_ = argument;
#if defined(SPLITQ_FIBER_UCONTEXT)
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_;
  context_.uc_stack.ss_size = stack_bytes_;
  context_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&context_, reinterpret_cast<void (*)()>(+[](unsigned high, unsigned low) {
    enter(reinterpret_cast<Fiber*>((std::uint64_t{high} << 32) | low));
  }),
              2, static_cast<unsigned>(std::uint64_t{self} >> 32), static_cast<unsigned>(self));
#else
  auto** top = reinterpret_cast<void**>(stack_ + stack_bytes_);  // page-aligned, as the call in enter_stack needs
  *--top = reinterpret_cast<void*>(&splitq_enter_stack);         // where the switch returns to
  *--top = nullptr;                                              // rbp
  *--top = nullptr;                                              // rbx
  *--top = this;                                                 // r12
  *--top = reinterpret_cast<void*>(&Fiber::enter);               // r13
  *--top = nullptr;                                              // r14
  *--top = nullptr;                                              // r15
  stack_pointer_ = top;
#endif
}

void Fiber::forget_frames() {
#if defined(SPLITQ_FIBER_ASAN)
  if (stack_ != nullptr) __asan_unpoison_memory_region(stack_, stack_bytes_);
#endif
}

void Fiber::enter(Fiber* self) {
#if defined(SPLITQ_FIBER_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, &left->bottom_, &left->size_);
#endif
  self->entry_(self->argument_);
  std::abort();
}

void Fiber::switch_stacks(Fiber& from, Fiber& to, [[maybe_unused]] bool ended) {
  left = &from;
#if defined(SPLITQ_FIBER_ASAN)
  // Without a place to keep it, the sanitizer frees what it allocated for the frames of `from`: megabytes a fiber.
  __sanitizer_start_switch_fiber(ended ? nullptr : &from.fake_stack_, to.bottom_, to.size_);
#endif
#if defined(SPLITQ_FIBER_UCONTEXT)
  swapcontext(&from.context_, &to.context_);
#else
  splitq_switch_stack(&from.stack_pointer_, to.stack_pointer_);
#endif
#if defined(SPLITQ_FIBER_ASAN)
  __sanitizer_finish_switch_fiber(from.fake_stack_, nullptr, nullptr);
#endif
}

}  // namespace splitq::emulator
