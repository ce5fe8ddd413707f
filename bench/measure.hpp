// The measurement: contestants take turns in every round, beside a yardstick, and their results are compared.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/contestant.hpp"

namespace splitq::bench {

struct Samples {
  std::vector<double> values;
  double median() const;
  double min() const;
  double max() const;
};

struct Row {
  std::string contestant;
  std::string refusal;      // where it did not take part: why
  Samples rates;            // in the case's unit, one a round
  double extra_bytes = -1;  // peak beyond inputs and results; -1: not known
  double difference = -1;   // of its results from the first contestant's; -1: is the first
};

struct CaseResult {
  Case shape;
  std::string yardstick;
  Samples yardstick_rates;  // empty where there is none
  std::vector<Row> rows;
};

/// A contestant that is still to be made, so that each memory measurement can make its own in a fresh process.
struct Entrant {
  std::string name;
  std::function<std::unique_ptr<Contestant>()> make;
};

/// Peak resident bytes that preparing and one call add, seen in a child process of its own: nothing that an earlier
/// call left behind hides a rise. Counts thread starts and first-touched library pages too (one or two MB).
/// -1 where it can't be told. To be called before this process has threads.
double extra_bytes_in_child(const Entrant& entrant, const Case& shape);

/// Largest difference that two right answers may have.
double tolerance(DType dtype);

/// How often: rounds, each with a sample of every contestant.
struct Sampling {
  int rounds = 7;
  int warm_ups = 1;
  double sample_seconds = 0.03;  // a sample repeats a call until it lasts about so long; 0: one call
};

/// One case: `step` is called after each piece of work, rounds + contestants times.
CaseResult measure(const Case& shape, const std::vector<std::unique_ptr<Contestant>>& contestants, Yardstick* yardstick,
                   const Sampling& sampling, const std::function<void()>& step);

}  // namespace splitq::bench
