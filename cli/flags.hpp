// Flags that several commands share, and what they mean to the library.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "splitq/splitq.hpp"

namespace splitq::cli {

/// Options of the computation that are numbers; those that are tensors belong to the commands.
struct OptionFlags {
  bool causal = false;
  std::string window;
  std::optional<double> scale;
  double softcap = 0.0;
  double dropout = 0.0;
  std::uint64_t seed = 0, offset = 0;

  void add_to(CLI::App& app);
  Options options() const;
};

/// Where and how it runs.
struct ExecutionFlags {
  std::string device = "auto";
  int threads = 0;
  std::string instruction_set;

  void add_to(CLI::App& app);
  Execution execution() const;
};

/// --device: what parse_device() knows.
CLI::Option* add_device(CLI::App& app, std::string& device);

/// --dtype. `help` says what it means to the command.
CLI::Option* add_dtype(CLI::App& app, std::string& dtype, const std::string& help);
DType parse_dtype(const std::string& dtype);  // one that add_dtype() let pass

}  // namespace splitq::cli
