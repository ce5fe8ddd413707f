// What the operating system says of this machine. Linux; what it does not say stays empty or 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace splitq::cli {

struct Cache {
  int level = 0;
  std::string type;  // "Data", "Instruction", "Unified"
  std::int64_t bytes = 0;
  std::string cpus;  // that share it: "0-7"
};

struct Machine {
  std::string cpu;
  std::vector<std::string> features;  // those that attention can use
  int cpus_online = 0;
  int cpus_usable = 0;  // by this process
  std::int64_t memory_bytes = 0;
  std::vector<Cache> caches;  // of the first CPU
};

Machine this_machine();

}  // namespace splitq::cli
