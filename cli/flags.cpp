#include "flags.hpp"

#include <fmt/format.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <charconv>
#include <limits>
#include <utility>

#include "problem/names.hpp"
#include "tensor.hpp"

namespace splitq::cli {
namespace {

constexpr std::pair<const char*, DType> kDTypes[] = {
    {"fp32", DType::kFp32}, {"fp16", DType::kFp16}, {"bf16", DType::kBf16}};

template <class Table>
std::vector<std::string> names(const Table& table) {
  std::vector<std::string> out;
  for (const auto& [name, value] : table) out.emplace_back(name);
  return out;
}

template <class Table>
auto value_of(const Table& table, const std::string& wanted) {
  for (const auto& [name, value] : table) {
    if (wanted == name) return value;
  }
  throw Error(fmt::format("no such name: '{}'", wanted));  // IsMember lets none of these pass
}

/// "L,R" as two numbers, -1 for unlimited.
std::pair<std::int64_t, std::int64_t> parse_window(const std::string& text) {
  std::int64_t left = 0, right = 0;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, left);
  const bool comma = first.ec == std::errc{} && first.ptr != end && *first.ptr == ',';
  const auto second = comma ? std::from_chars(first.ptr + 1, end, right) : first;
  if (!comma || second.ec != std::errc{} || second.ptr != end) {
    throw Error(
        fmt::format("--window: '{}'; it should be L,R: the keys visible to the left and to the right, "
                    "-1 for all",
                    text));
  }
  return {left, right};
}

/// CLI11 reads unsigned numbers with strtoull, to which -1 is the largest.
std::string is_uint64(std::string& text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc{} && at == end) return "";
  return fmt::format("{} is not an integer from 0 to {}", text, std::numeric_limits<std::uint64_t>::max());
}

}  // namespace

void OptionFlags::add_to(CLI::App& app) {
  constexpr auto kGroup = "What is computed";
  const CLI::Validator any_uint64(is_uint64, "");
  app.add_flag("--causal", causal, "Query i sees key j if j <= i + Sk - Sq")->group(kGroup);
  app.add_option("--window", window, "Keys visible to the left and to the right; -1: all")
      ->type_name("L,R")
      ->group(kGroup);
  app.add_option("--scale", scale, "Of the logits; default 1/sqrt(D)")
      ->check(CLI::Number)
      ->type_name("X")
      ->group(kGroup);
  app.add_option("--softcap", softcap, "Logits become C tanh(x / C); 0: off")
      ->check(CLI::Number)
      ->type_name("C")
      ->group(kGroup);
  app.add_option("--dropout", dropout, "Probability, in [0, 1), that a weight is dropped")
      ->check(CLI::Number)
      ->type_name("R")
      ->group(kGroup);
  app.add_option("--seed", seed, "Of the dropout")->check(any_uint64)->type_name("N")->group(kGroup);
  app.add_option("--offset", offset, "Of the dropout: a second number beside the seed, such as the step")
      ->check(any_uint64)
      ->type_name("N")
      ->group(kGroup);
}

Options OptionFlags::options() const {
  Options options{.scale = scale, .causal = causal};
  if (!window.empty()) std::tie(options.window_left, options.window_right) = parse_window(window);
  options.softcap = softcap;
  options.dropout = dropout;
  options.seed = seed;
  options.offset = offset;
  return options;
}

void ExecutionFlags::add_to(CLI::App& app) {
  constexpr auto kGroup = "Where it runs";
  add_device(app, device)->group(kGroup);
  app.add_option("--threads", threads, "CPU threads; 0: all that the process may use")
      ->check(CLI::Range(0, std::numeric_limits<int>::max()))
      ->type_name("N")
      ->group(kGroup);
  app.add_option("--instruction-set", instruction_set, "A name that doctor lists; default: the best")
      ->type_name("NAME")
      ->group(kGroup);
}

Execution ExecutionFlags::execution() const {
  Execution execution;
  execution.device = *parse_device(device);
  execution.threads = threads;
  execution.instruction_set = instruction_set;
  return execution;
}

CLI::Option* add_device(CLI::App& app, std::string& device) {
  const CLI::Validator is_device(
      [](std::string& text) {
        return parse_device(text) ? "" : fmt::format("{} is none of auto, cpu, cuda, cuda:N, emulator", text);
      },
      "");
  return app
      .add_option("--device", device,
                  "auto (a GPU where there is one that can, else the CPU), cpu, cuda, cuda:N or emulator")
      ->check(is_device)
      ->type_name("NAME");
}

CLI::Option* add_dtype(CLI::App& app, std::string& dtype, const std::string& help) {
  return app.add_option("--dtype", dtype, help)->check(CLI::IsMember(names(kDTypes)))->type_name("fp32|fp16|bf16");
}

DType parse_dtype(const std::string& dtype) { return value_of(kDTypes, dtype); }

}  // namespace splitq::cli
