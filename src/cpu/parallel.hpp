// Threads, through oneTBB.
#pragma once

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace splitq::cpu {

/// Threads that this process may use.
inline int available_threads() { return tbb::this_task_arena::max_concurrency(); }

/// oneTBB's own synchronisation is inside its binary, where ThreadSanitizer does not see it. This says the same in the open.
inline std::atomic<std::int64_t> handover{0};

/// An arena for one call at a time, kept for later calls: in a new one the second thread begins 100 µs late, in one just used 2.
class ArenaLease {
 public:
  explicit ArenaLease(int threads) {
    std::lock_guard lock(mutex_of_idle());
    auto& idle = idle_of(threads);
    if (idle.empty()) idle.push_back(std::make_unique<tbb::task_arena>(threads));
    arena_ = std::move(idle.back());
    idle.pop_back();
  }
  ~ArenaLease() {
    std::lock_guard lock(mutex_of_idle());
    idle_of(arena_->max_concurrency()).push_back(std::move(arena_));
  }
  ArenaLease(const ArenaLease&) = delete;
  ArenaLease& operator=(const ArenaLease&) = delete;
  tbb::task_arena* operator->() const { return arena_.get(); }

 private:
  using Idle = std::vector<std::unique_ptr<tbb::task_arena>>;
  // Never destroyed: a call may outlive other static objects.
  static std::mutex& mutex_of_idle() {
    static auto& mutex = *new std::mutex;
    return mutex;
  }
  static Idle& idle_of(int threads) {
    static auto& all = *new std::map<int, Idle>;
    return all[threads];
  }

  std::unique_ptr<tbb::task_arena> arena_;
};

/// Calls f(worker, i) for i = 0 .. count - 1, begun in this order, on up to `threads` threads; worker < threads names the thread.
/// A task may wait for an earlier one (it has begun, on another thread, and waits for no later one).
template <class F>
void for_each_task(int threads, std::int64_t count, const F& f) {
  if (threads > count) threads = static_cast<int>(count);
  if (threads <= 1) {
    for (std::int64_t i = 0; i < count; ++i) f(0, i);
    return;
  }
  std::atomic<std::int64_t> next{0};
  // By name, and made before the release: ThreadSanitizer would see an argument made here read by other threads.
  const auto work = [&](int worker) {
    (void)handover.load(std::memory_order_acquire);
    for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) f(worker, i);
    handover.fetch_add(1, std::memory_order_release);
  };
  std::optional<tbb::global_control> more;  // than there are processors
  if (threads > available_threads()) more.emplace(tbb::global_control::max_allowed_parallelism, threads);
  const ArenaLease arena(threads);
  handover.fetch_add(1, std::memory_order_release);
  arena->execute([&] { tbb::parallel_for(0, threads, work, tbb::simple_partitioner()); });
  (void)handover.load(std::memory_order_acquire);
}

}  // namespace splitq::cpu
