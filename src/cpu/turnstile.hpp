// The order in which tasks add to a key tile's dK and dV (and to a bias gradient that they share).
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "cpu/kernels.hpp"

namespace splitq::cpu {

/// Tasks of one key/value head begin with the last rows and take turns at each key tile in that order. The row tiles that
/// see a key tile are neighbours, so a task's turn is the number of row tiles after it that see the tile. `shared`: all
/// heads of all sequences take turns together, head after head, because they add to the same bias gradient.
class OrderedTurnstile final : public Turnstile {
 public:
  OrderedTurnstile(const Call& call, bool shared) : call_(call), shared_(shared) {
    const std::int64_t tile_m = call.plan.tile_m;
    const std::int64_t tile_n = call.plan.tile_n;
    for (std::size_t b = 0; b < call.sequences.size(); ++b) {
      const auto sequence = static_cast<std::int64_t>(b);
      const std::int64_t key_tiles = (call.sequences[b].seqlen_k + tile_n - 1) / tile_n;
      PerSequence s{std::vector<Turns>(static_cast<std::size_t>(key_tiles)), shared ? 0 : counters_};
      counters_ += shared ? 0 : key_tiles * call.problem.heads_kv;
      most_tiles_ = std::max(most_tiles_, key_tiles);
      for (std::int64_t row = 0; row < call.rows(sequence); row += tile_m) {
        const Task task{sequence, 0, row, std::min(call.rows(sequence), row + tile_m), 0, call.sequences[b].seqlen_k};
        const KeyRange range = task_keys(call, task);
        for (std::int64_t j = range.begin / tile_n; j * tile_n < range.end; ++j) {
          s.tiles[static_cast<std::size_t>(j)].last = row / tile_m;
          ++s.tiles[static_cast<std::size_t>(j)].count;
        }
      }
      sequences_.push_back(std::move(s));
    }
    if (shared) {
      counters_ = most_tiles_;
      std::vector<std::int64_t> before(static_cast<std::size_t>(most_tiles_));
      for (PerSequence& s : sequences_) {
        for (std::size_t j = 0; j < s.tiles.size(); ++j) {
          s.tiles[j].before = before[j];
          before[j] += s.tiles[j].count * call.problem.heads_kv;
        }
      }
    }
    turn_ = std::make_unique<std::atomic<std::int64_t>[]>(static_cast<std::size_t>(counters_));
  }

  void wait(const Task& task, std::int64_t key_tile) override {
    const std::int64_t mine = turn_of(task, key_tile);
    std::atomic<std::int64_t>& turn = counter(task, key_tile);
    for (int spins = 0; turn.load(std::memory_order_acquire) != mine; ++spins) {
      if (spins > kSpins) std::this_thread::yield();
    }
  }

  void pass(const Task& task, std::int64_t key_tile) override {
    counter(task, key_tile).store(turn_of(task, key_tile) + 1, std::memory_order_release);
  }

 private:
  static constexpr int kSpins = 64;
  struct Turns {
    std::int64_t last = 0;    // row tile that sees the key tile
    std::int64_t count = 0;   // how many do, of one head
    std::int64_t before = 0;  // turns of the sequences before, where all share
  };
  struct PerSequence {
    std::vector<Turns> tiles;
    std::int64_t first_counter;
  };

  std::int64_t turn_of(const Task& task, std::int64_t key_tile) const {
    const Turns& t = sequences_[task.sequence].tiles[static_cast<std::size_t>(key_tile)];
    const std::int64_t own = t.last - task.row_begin / call_.plan.tile_m;
    return shared_ ? t.before + task.head_kv * t.count + own : own;
  }

  std::atomic<std::int64_t>& counter(const Task& task, std::int64_t key_tile) const {
    const PerSequence& s = sequences_[task.sequence];
    const std::int64_t head = shared_ ? 0 : task.head_kv * static_cast<std::int64_t>(s.tiles.size());
    return turn_[static_cast<std::size_t>(s.first_counter + head + key_tile)];
  }

  const Call& call_;
  bool shared_;
  std::int64_t counters_ = 0;
  std::int64_t most_tiles_ = 0;
  std::vector<PerSequence> sequences_;
  std::unique_ptr<std::atomic<std::int64_t>[]> turn_;
};

}  // namespace splitq::cpu
