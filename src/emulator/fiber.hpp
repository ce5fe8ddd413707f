// A stack of its own for a function, and the switch between stacks.
#pragma once

#include <cstddef>

#if !defined(__x86_64__) && !defined(SPLITQ_FIBER_UCONTEXT)
#define SPLITQ_FIBER_UCONTEXT 1
#endif
#if defined(SPLITQ_FIBER_UCONTEXT)
#include <ucontext.h>
#endif

namespace splitq::emulator {

class Fiber {
 public:
  Fiber() = default;  // stands for the stack of whoever switches away from it
  explicit Fiber(std::size_t stack_bytes);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next switch to this fiber calls entry(argument), which may not return. May be called again for a new run.
  void start(void (*entry)(void*), void* argument);

  /// Leaves `from`, the running fiber; comes back when something switches to it. One that has ended never comes back
  /// from here, until it is started anew.
  static void switch_stacks(Fiber& from, Fiber& to, bool ended = false);

 private:
  static void enter(Fiber* self);
  void forget_frames();  // of a run that was left in the middle

  std::byte* stack_ = nullptr;
  std::size_t stack_bytes_ = 0;
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;
#if defined(SPLITQ_FIBER_UCONTEXT)
  ucontext_t context_{};
#else
  void* stack_pointer_ = nullptr;
#endif
  // What AddressSanitizer wants to know of a stack.
  [[maybe_unused]] void* fake_stack_ = nullptr;
  [[maybe_unused]] const void* bottom_ = nullptr;
  [[maybe_unused]] std::size_t size_ = 0;
};

}  // namespace splitq::emulator
