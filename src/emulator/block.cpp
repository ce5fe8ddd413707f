#include "emulator/block.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace splitq::emulator {
namespace {

thread_local Block* current_block = nullptr;

constexpr unsigned kYieldOneIn = 16;  // plain accesses to shared memory

/// "0-31, 64": sorted.
std::string ranges_of(std::vector<unsigned> threads) {
  std::sort(threads.begin(), threads.end());
  std::vector<std::string> parts;
  for (std::size_t first = 0, last = 0; first < threads.size(); first = last + 1) {
    for (last = first; last + 1 < threads.size() && threads[last + 1] == threads[last] + 1;) ++last;
    parts.push_back(first == last ? fmt::format("{}", threads[first])
                                  : fmt::format("{}-{}", threads[first], threads[last]));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

Block::Block(Machine& machine, Dim3 index)
    : machine_(machine),
      index_(index),
      clocks_(machine.launch.threads),
      shared_(machine.launch.shared_bytes, machine.launch.threads, machine.counters, machine.findings),
      threads_(machine.launch.threads),
      warps_(machine.launch.threads / kLanes) {}

Block& Block::current() { return *current_block; }

bool Block::run() {
  machine_.findings.begin_block(index_);
  ++counters().blocks;
  for (unsigned t = 0; t < threads_.size(); ++t) {
    machine_.fibers[t]->start(&Block::enter, this);
    ready_.push_back(t);
  }
  Block* const outer = std::exchange(current_block, this);
  switch_to_next();  // comes back when no thread is ready
  current_block = outer;
  for (Warp& warp : warps_) warp.accesses.flush(counters());
  if (thrown_) std::rethrow_exception(thrown_);
  if (!stopped_ && ended_ < threads_.size()) report_deadlock();
  return ended_ == threads_.size();
}

void Block::enter(void* block) { static_cast<Block*>(block)->run_thread(); }

void Block::run_thread() {
  try {
    machine_.body();
  } catch (...) {
    thrown_ = std::current_exception();
  }
  if (thrown_) stop();
  end_thread();
}

void Block::end_thread() {
  threads_[running_].ended = true;
  ++ended_;
  for (Barrier& b : barriers_) complete_if_full(b);
  switch_to_next();  // and nothing makes it ready again
}

void Block::switch_to_next() {
  Fiber* from = on_stack_;
  Fiber* to = &scheduler_;
  const unsigned leaving = running_;
  if (!ready_.empty() && !stopped_) {
    const std::size_t pick = machine_.random() % ready_.size();
    const unsigned next = ready_[pick];
    ready_[pick] = ready_.back();
    ready_.pop_back();
    to = machine_.fibers[next].get();
    running_ = next;
  }
  if (to == from) return;
  on_stack_ = to;
  Fiber::switch_stacks(*from, *to, from != &scheduler_ && threads_[leaving].ended);
}

void Block::stop() {
  stopped_ = true;
  switch_to_next();
  std::abort();  // a stopped block's fibers are never resumed
}

void Block::set_ready(unsigned thread) {
  threads_[thread].waits_for.clear();
  ready_.push_back(thread);
}

void Block::maybe_yield() {
  if (machine_.random() % kYieldOneIn != 0) return;
  ready_.push_back(running_);
  switch_to_next();
}

bool Block::arrive(const char* instruction, void* operand) {
  Warp& warp = warps_[running_ / kLanes];
  if (warp.arrived.empty()) {
    warp.instruction = instruction;
  } else if (std::strcmp(warp.instruction, instruction) != 0) {
    machine_.findings.add(Fault::kDivergence, running_, "thread at {} while threads {} of its warp are at {}",
                          instruction, ranges_of(warp.arrived), warp.instruction);
    stop();
  }
  warp.operands[lane()] = operand;
  warp.arrived.push_back(running_);
  if (warp.arrived.size() == kLanes) return true;
  threads_[running_].waits_for = instruction;
  return false;
}

Block::Operands Block::begin_act() {
  Warp& warp = warps_[running_ / kLanes];
  for (const unsigned t : warp.arrived) {
    if (t != running_) set_ready(t);
  }
  warp.arrived.clear();
  warp.accesses.flush(counters());
  return warp.operands;
}

void Block::warp_barrier() {
  meet("bar.warp.sync", nullptr, [&](Operands&) {
    std::array<unsigned, kLanes> members;
    for (unsigned l = 0; l < kLanes; ++l) members[l] = running_ - lane() + l;
    clocks_.join(members);
    ++counters().warp_barriers;
  });
}

void Block::arrive_at(unsigned id, unsigned count, const char* instruction, bool predicate) {
  if (id >= barriers_.size() || count % kLanes != 0 || count > threads_.size()) {
    machine_.findings.add(Fault::kBarrier, running_,
                          "{} {}, {}: the id may be 0 to 15 and the count a multiple of 32, at most {}", instruction,
                          id, count, threads_.size());
    stop();
  }
  Barrier& b = barriers_[id];
  const bool first = b.arrived.empty();
  if (!first && (b.count != count || std::strcmp(b.instruction, instruction) != 0)) {
    machine_.findings.add(Fault::kBarrier, running_, "{} {}, {} where threads {} wait at {} with a count of {}",
                          instruction, id, count, ranges_of(b.arrived), b.instruction, b.count);
    stop();
  }
  b.count = count, b.instruction = instruction;
  b.any = predicate || (!first && b.any);
  b.arrived.push_back(running_);
  threads_[running_].waits_for =
      count == 0 ? fmt::format("{} {}", instruction, id) : fmt::format("{} {}, {}", instruction, id, count);
  complete_if_full(b);
  // Whoever completed it is ready like the others, and the order is open.
  switch_to_next();
}

void Block::complete_if_full(Barrier& b) {
  const std::size_t wanted = b.count != 0 ? b.count : threads_.size() - ended_;
  if (!b.arrived.empty() && b.arrived.size() >= wanted) complete(b);
}

void Block::complete(Barrier& b) {
  // bar.sync is .aligned: a warp comes as a whole.
  std::map<unsigned, unsigned> lanes;
  for (const unsigned t : b.arrived) ++lanes[t / kLanes];
  for (const auto& [warp, n] : lanes) {
    unsigned alive = 0;
    for (unsigned t = warp * kLanes; t < (warp + 1) * kLanes; ++t) alive += threads_[t].ended ? 0 : 1;
    if (n == alive) continue;
    machine_.findings.add(Fault::kBarrier, running_, "{} was completed by {} of the {} threads of warp {}",
                          threads_[b.arrived.front()].waits_for, n, alive, warp);
  }
  clocks_.join(b.arrived);
  for (const auto& [warp, n] : lanes) warps_[warp].accesses.flush(counters());
  for (const unsigned t : b.arrived) threads_[t].any = b.any, set_ready(t);
  b.arrived.clear();
  ++counters().barriers;
}

void Block::report_deadlock() {
  std::map<std::string, std::vector<unsigned>> waiting;
  std::vector<unsigned> ended;
  for (unsigned t = 0; t < threads_.size(); ++t) {
    if (threads_[t].ended)
      ended.push_back(t);
    else
      waiting[threads_[t].waits_for].push_back(t);
  }
  std::vector<std::string> parts;
  for (const auto& [what, threads] : waiting)
    parts.push_back(fmt::format("threads {} wait at {}", ranges_of(threads), what));
  if (!ended.empty()) parts.push_back(fmt::format("threads {} have ended", ranges_of(ended)));
  machine_.findings.add(Fault::kDeadlock, waiting.begin()->second.front(), "no thread can go on: {}",
                        fmt::join(parts, "; "));
}

void Block::read_shared(std::uint32_t address, void* to, std::uint32_t bytes) {
  maybe_yield();
  warps_[running_ / kLanes].accesses.add(lane(), bytes, false, address);
  shared_.read(running_, clocks_, address, to, bytes);
}

void Block::write_shared(std::uint32_t address, const void* from, std::uint32_t bytes) {
  maybe_yield();
  warps_[running_ / kLanes].accesses.add(lane(), bytes, true, address);
  shared_.write(running_, clocks_, address, from, bytes);
}

void Block::read_row(unsigned row_lane, std::uint32_t address, void* to, std::uint32_t bytes) {
  shared_.read(running_ - lane() + row_lane, clocks_, address, to, bytes);
}

void Block::copy_async(std::uint32_t shared, const void* global, std::uint32_t bytes, std::uint32_t source_bytes) {
  maybe_yield();
  warps_[running_ / kLanes].accesses.add(lane(), bytes, true, shared);
  AsyncCopy copy{shared, global, bytes, source_bytes};
  if (source_bytes != 0 && !machine_.global.check(running_, global, source_bytes, false)) copy.global = nullptr;
  if (!shared_.issue(running_, clocks_, shared, bytes)) return;
  if (machine_.launch.completion == Completion::kAtOnce) shared_.arrive(copy);
  threads_[running_].copies.issue(copy);
}

void Block::wait_copies(unsigned newest) {
  threads_[running_].copies.wait(newest, [&](const AsyncCopy& copy) {
    if (machine_.launch.completion == Completion::kLate) shared_.arrive(copy);
    shared_.finish(running_, clocks_, copy.shared, copy.bytes);
  });
}

}  // namespace splitq::emulator
