// One thread block: its threads as fibers, their interleaving, and the places where they meet.
#pragma once

#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "emulator/async_copies.hpp"
#include "emulator/banks.hpp"
#include "emulator/clocks.hpp"
#include "emulator/fiber.hpp"
#include "emulator/global_memory.hpp"
#include "emulator/shared_memory.hpp"

namespace splitq::emulator {

/// What outlives a block.
struct Machine {
  const Launch& launch;
  const std::function<void()>& body;
  Counters& counters;
  Findings& findings;
  GlobalMemory& global;
  std::mt19937& random;
  std::vector<std::unique_ptr<Fiber>>& fibers;  // a thread of a block each
};

class Block {
 public:
  Block(Machine& machine, Dim3 index);

  /// Runs all threads to their end. False: the block can't go on, and the findings say why.
  bool run();

  /// The block of the running fiber.
  static Block& current();

  Dim3 index() const { return index_; }
  Dim3 grid() const { return machine_.launch.grid; }
  unsigned thread() const { return running_; }
  unsigned lane() const { return running_ % kLanes; }
  Counters& counters() { return machine_.counters; }

  // Where threads meet ------------------------------------------------------------------------------------------------

  using Operands = std::array<void*, kLanes>;  // one a lane

  /// A warp-wide instruction: returns when all lanes have come. The last to come carries it out for all of them,
  /// act(operands). Lanes that meet for different instructions end the block.
  template <class Act>
  void meet(const char* instruction, void* operand, Act&& act) {
    if (!arrive(instruction, operand)) return switch_to_next();
    Operands operands = begin_act();
    act(operands);
  }

  /// bar.sync; count 0: all threads of the block that have not ended.
  void barrier(unsigned id, unsigned count) { arrive_at(id, count, "bar.sync", false); }
  /// bar.red.or of barrier 0, all threads.
  bool reduce_or(bool predicate) {
    arrive_at(0, 0, "bar.red.or", predicate);
    return threads_[running_].any;
  }
  void warp_barrier();

  // Memory ------------------------------------------------------------------------------------------------------------

  void read_shared(std::uint32_t address, void* to, std::uint32_t bytes);
  void write_shared(std::uint32_t address, const void* from, std::uint32_t bytes);
  /// A row of ldmatrix, whose address lane `lane` of the running warp gave. Bank conflicts are the caller's.
  void read_row(unsigned lane, std::uint32_t address, void* to, std::uint32_t bytes);

  void read_global(void* to, const void* from, std::size_t bytes) { machine_.global.read(running_, to, from, bytes); }
  void write_global(void* to, const void* from, std::size_t bytes) { machine_.global.write(running_, to, from, bytes); }

  void copy_async(std::uint32_t shared, const void* global, std::uint32_t bytes, std::uint32_t source_bytes);
  void commit_copies() { threads_[running_].copies.commit(); }
  void wait_copies(unsigned newest);

  /// Lets other threads run first, sometimes.
  void maybe_yield();

 private:
  struct Thread {
    AsyncCopies copies;
    std::string waits_for;  // empty: can run, or has ended
    bool any = false;       // what the last barrier's predicates come to
    bool ended = false;
  };
  struct Warp {
    const char* instruction = nullptr;  // that lanes have met for
    Operands operands{};
    std::vector<unsigned> arrived;  // threads
    WarpAccesses accesses;
  };
  struct Barrier {
    unsigned count = 0;
    const char* instruction = nullptr;
    bool any = false;
    std::vector<unsigned> arrived;  // threads
  };

  static void enter(void* block);
  void run_thread();
  void end_thread();
  void switch_to_next();     // comes back once something has made the thread ready
  [[noreturn]] void stop();  // ends the block from within a fiber
  void set_ready(unsigned thread);

  bool arrive(const char* instruction, void* operand);
  Operands begin_act();
  void arrive_at(unsigned id, unsigned count, const char* instruction, bool predicate);
  void complete(Barrier& barrier);
  void complete_if_full(Barrier& barrier);
  void report_deadlock();

  Machine& machine_;
  Dim3 index_;
  Clocks clocks_;
  SharedMemory shared_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::array<Barrier, 16> barriers_;
  std::vector<unsigned> ready_;
  unsigned running_ = 0;
  unsigned ended_ = 0;
  bool stopped_ = false;
  std::exception_ptr thrown_;
  Fiber scheduler_;
  Fiber* on_stack_ = &scheduler_;  // whose stack is in use
};

}  // namespace splitq::emulator
