#include "bench/measure.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <fstream>
#include <thread>

namespace splitq::bench {
namespace {

constexpr int kMaxCalls = 1000;
constexpr auto kPause = std::chrono::milliseconds(2);  // lets the last contestant's threads go to sleep

/// A value of /proc/self/status in bytes, or -1.
double status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word; status.ignore(256, '\n'))
    if (double kilobytes; word == key && status >> kilobytes) return 1024.0 * kilobytes;
  return -1;
}

double measure_extra_bytes(const Entrant& entrant, const Case& shape) {
  Workload workload = make_workload(shape);
  const auto contestant = entrant.make();
  if (!contestant->enters(shape) || !contestant->refusal(shape).empty()) return -1;
  const double before = status_bytes("VmRSS:");
  contestant->prepare(workload);
  contestant->time(1);
  const double peak = status_bytes("VmHWM:");
  return before < 0 || peak < 0 ? -1 : std::max(0.0, peak - before);
}

}  // namespace

double Samples::median() const {
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  return n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}
double Samples::min() const { return *std::min_element(values.begin(), values.end()); }
double Samples::max() const { return *std::max_element(values.begin(), values.end()); }

double extra_bytes_in_child(const Entrant& entrant, const Case& shape) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    double bytes = -1;
    try {
      bytes = measure_extra_bytes(entrant, shape);
    } catch (const std::exception&) {  // the timed run meets it again, and reports it
    }
    _exit(write(ends[1], &bytes, sizeof bytes) == sizeof bytes ? 0 : 1);
  }
  close(ends[1]);
  double bytes = -1;
  if (child < 0 || read(ends[0], &bytes, sizeof bytes) != sizeof bytes) bytes = -1;
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return bytes;
}

double tolerance(DType dtype) { return dtype == DType::kFp32 ? 1e-4 : dtype == DType::kFp16 ? 5e-3 : 3e-2; }

CaseResult measure(const Case& shape, const std::vector<std::unique_ptr<Contestant>>& contestants, Yardstick* yardstick,
                   const Sampling& sampling, const std::function<void()>& step) {
  Workload workload = make_workload(shape);
  CaseResult result{shape, yardstick ? yardstick->name() : "", {}, {}};
  std::vector<int> calls(contestants.size(), 0);  // of a sample; 0: does not take part
  std::vector<std::size_t> rows(contestants.size(), 0);
  Results reference;

  for (std::size_t i = 0; i < contestants.size(); ++i, step()) {
    Contestant& contestant = *contestants[i];
    if (!contestant.enters(shape)) continue;
    rows[i] = result.rows.size();
    Row& row = result.rows.emplace_back();
    row.contestant = contestant.name();
    row.refusal = contestant.refusal(shape);
    if (!row.refusal.empty()) continue;
    try {
      contestant.prepare(workload);
      erase_results(workload.copies.front(), shape.backward);
      contestant.time(1);
      contestant.fetch();
    } catch (const std::exception& error) {
      row.refusal = error.what();
      continue;
    }
    row.extra_bytes = contestant.own_extra_bytes();
    Results results = read_results(workload.copies.front(), shape.backward);
    if (reference.empty())
      reference = std::move(results);
    else
      row.difference = relative_error(results, reference);
    double seconds = 0;
    for (int warm_up = 0; warm_up < sampling.warm_ups; ++warm_up) seconds = contestant.time(1);
    calls[i] =
        sampling.sample_seconds == 0 ? 1 : std::clamp(int(std::ceil(sampling.sample_seconds / seconds)), 1, kMaxCalls);
  }

  if (yardstick) yardstick->rate();
  for (int round = 0; round < sampling.rounds; ++round, step()) {
    if (yardstick) result.yardstick_rates.values.push_back(yardstick->rate());
    for (std::size_t turn = 0; turn < contestants.size(); ++turn) {
      const std::size_t i = (turn + std::size_t(round)) % contestants.size();  // nobody is always first
      if (calls[i] == 0) continue;
      std::this_thread::sleep_for(kPause);
      const double seconds = contestants[i]->time(calls[i]) / calls[i];
      result.rows[rows[i]].rates.values.push_back(shape.rate(seconds));
    }
  }
  for (std::size_t i = 0; i < contestants.size(); ++i)
    if (calls[i] != 0) contestants[i]->finish();
  return result;
}

}  // namespace splitq::bench
