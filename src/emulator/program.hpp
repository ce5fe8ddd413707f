// Another program, run to its end.
#pragma once

#include <string>
#include <vector>

namespace splitq::emulator {

struct Outcome {
  int error = 0;       // errno of a program that could not be started
  int status = -1;     // its exit status; -1 where a signal ended it
  std::string output;  // all that it printed

  bool ok() const { return error == 0 && status == 0; }
};

/// words[0] is looked for in PATH. No shell is involved: a word is an argument, whatever is in it.
Outcome run_program(const std::vector<std::string>& words);

}  // namespace splitq::emulator
