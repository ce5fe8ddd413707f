// What the measurement says: a table for people, JSON for programs, a progress bar for the wait.
#pragma once

#include <string>
#include <vector>

#include "bench/measure.hpp"

namespace splitq::bench {

/// Facts about the run, printed above the table and written into the JSON.
struct Machine {
  std::string processor;
  int threads = 0;       // of the CPU; 0: it is a GPU
  std::string backend;   // of splitq
  std::string openblas;  // its kernel, or why it is missing
  std::string torch;     // its version, or why it is missing
};
std::string processor_name();

void print_machine(const Machine& machine);
/// One case; the heading where it differs from the last case's.
void print_case(const CaseResult& result, const Case* previous);

/// The results' file. Opened before anything is measured, so that a bad path is told at once; appears under its name
/// only when complete.
class JsonFile {
 public:
  explicit JsonFile(const std::string& path);  // "" writes nothing
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;
  ~JsonFile();
  void write(const Machine& machine, const std::vector<CaseResult>& results);

 private:
  std::string path_, partial_;
};

/// On standard error, where that is a terminal.
class Progress {
 public:
  explicit Progress(int steps);
  ~Progress() { clear(); }
  void step();
  void clear();

 private:
  int steps_, done_ = 0;
  bool visible_;
};

}  // namespace splitq::bench
