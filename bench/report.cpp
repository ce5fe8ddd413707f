#include "bench/report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace splitq::bench {
namespace {

constexpr int kBarWidth = 40;

std::string megabytes(double bytes) { return bytes < 0 ? "?" : fmt::format("{:.1f} MB", bytes * 1e-6); }

bool same_heading(const Case& a, const Case& b) {
  const bool same_batch = a.gpu && b.gpu ? a.batch * a.seqlen_q == b.batch * b.seqlen_q : a.batch == b.batch;
  return a.dtype == b.dtype && same_batch && a.heads_q == b.heads_q && a.heads_kv == b.heads_kv &&
         a.head_dim == b.head_dim && a.causal == b.causal && a.backward == b.backward && a.decode() == b.decode();
}

/// The first that took part: ratios and differences are taken from it.
const Row* baseline_of(const CaseResult& result) {
  for (const Row& row : result.rows)
    if (row.refusal.empty()) return &row;
  return nullptr;
}

void print_heading(const Case& c, const CaseResult& result) {
  const Row* baseline = baseline_of(result);
  const std::string heads = c.group() == 1 ? fmt::format("{}", c.heads_q) : fmt::format("{}/{}", c.heads_q, c.heads_kv);
  const std::string batch = c.gpu ? fmt::format("{} tokens", c.batch * c.seqlen_q) : fmt::format("batch {}", c.batch);
  fmt::print("\n{}, {}, head_dim {}, {}, {}, heads {}\n",
             c.decode()   ? "one query against a cache"
             : c.backward ? "backward"
                          : "forward",
             name_of(c.dtype), c.head_dim, c.causal ? "causal" : "not causal", batch, heads);
  fmt::print("{:>7}  {:<21} {:>8} {:>15} {:>9} {:>16} {:>13} {:>11}\n", "seqlen", "contestant", c.unit(), "min..max",
             result.yardstick.empty() ? "" : "of " + result.yardstick,
             baseline ? ("vs " + baseline->contestant).substr(0, 16) : "", "extra memory", "difference");
}

std::string spread(const Samples& s) { return fmt::format("{:.1f}..{:.1f}", s.min(), s.max()); }

nlohmann::json to_json(const Samples& s) {
  if (s.values.empty()) return nullptr;
  return {{"median", s.median()}, {"min", s.min()}, {"max", s.max()}, {"samples", s.values}};
}

nlohmann::json to_json(const CaseResult& result) {
  const Case& c = result.shape;
  nlohmann::json rows = nlohmann::json::array();
  for (const Row& row : result.rows) {
    nlohmann::json entry = {{"contestant", row.contestant}};
    if (!row.refusal.empty()) {
      entry["refusal"] = row.refusal;
    } else {
      entry["rate"] = to_json(row.rates);
      if (row.extra_bytes >= 0) entry["extra_bytes"] = row.extra_bytes;
      if (row.difference >= 0) entry["difference"] = row.difference;
    }
    rows.push_back(std::move(entry));
  }
  return {{"dtype", name_of(c.dtype)},
          {"batch", c.batch},
          {"heads_q", c.heads_q},
          {"heads_kv", c.heads_kv},
          {"seqlen_q", c.seqlen_q},
          {"seqlen_k", c.seqlen_k},
          {"head_dim", c.head_dim},
          {"causal", c.causal},
          {"direction", c.backward ? "backward" : "forward"},
          {"unit", c.unit()},
          {"yardstick", {{"name", result.yardstick}, {"rate", to_json(result.yardstick_rates)}}},
          {"contestants", rows}};
}

}  // namespace

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

void print_machine(const Machine& m) {
  fmt::print("splitq {} ({}), {}", version(), m.backend, m.processor);
  if (m.threads > 0) fmt::print(", {} thread{}\nOpenBLAS: {}", m.threads, m.threads == 1 ? "" : "s", m.openblas);
  fmt::print("\nPyTorch: {}\n", m.torch);
  std::fflush(stdout);
}

void print_case(const CaseResult& result, const Case* previous) {
  const Case& c = result.shape;
  if (!previous || !same_heading(c, *previous)) print_heading(c, result);
  const Row* baseline = baseline_of(result);
  std::string seqlen = fmt::format("{}", c.seqlen_k);
  for (const Row& row : result.rows) {
    if (!row.refusal.empty()) {
      fmt::print("{:>7}  {:<21} {}\n", seqlen, row.contestant, row.refusal);
    } else {
      const double rate = row.rates.median();
      const bool yardstick = !result.yardstick_rates.values.empty();
      fmt::print("{:>7}  {:<21} {:>8.1f} {:>15} {:>9} {:>16} {:>13} {:>11}\n", seqlen, row.contestant, rate,
                 spread(row.rates),
                 yardstick ? fmt::format("{:.0f} %", 100 * rate / result.yardstick_rates.median()) : "?",
                 baseline ? fmt::format("{:.2f}x", rate / baseline->rates.median()) : "?", megabytes(row.extra_bytes),
                 row.difference < 0 && !std::isnan(row.difference) ? "" : fmt::format("{:.1e}", row.difference));
    }
    seqlen.clear();
  }
  if (!result.yardstick_rates.values.empty())
    fmt::print("{:>7}  {:<21} {:>8.1f} {:>15}\n", "", result.yardstick, result.yardstick_rates.median(),
               spread(result.yardstick_rates));
  std::fflush(stdout);
}

JsonFile::JsonFile(const std::string& path) : path_(path) {
  if (path.empty()) return;
  if (std::filesystem::is_directory(path))
    throw Error(StatusCode::kInvalidArgument, fmt::format("--json: '{}' is a directory; it must be a file", path));
  const std::string partial = path + ".partial";
  if (!std::ofstream(partial))
    throw Error(StatusCode::kInvalidArgument,
                fmt::format("--json: '{}' can't be written: {}", path, std::strerror(errno)));
  partial_ = partial;
}

JsonFile::~JsonFile() {
  if (!partial_.empty()) std::remove(partial_.c_str());
}

void JsonFile::write(const Machine& m, const std::vector<CaseResult>& results) {
  if (partial_.empty()) return;
  nlohmann::json list = nlohmann::json::array();
  for (const CaseResult& result : results) list.push_back(to_json(result));
  const nlohmann::json all = {{"splitq", version()},
                              {"machine",
                               {{"processor", m.processor},
                                {"threads", m.threads},
                                {"backend", m.backend},
                                {"openblas", m.openblas},
                                {"torch", m.torch}}},
                              {"results", list}};
  std::ofstream file(partial_);
  file << all.dump(1) << '\n';
  file.close();
  if (!file || std::rename(partial_.c_str(), path_.c_str()) != 0)
    throw Error(StatusCode::kInvalidArgument,
                fmt::format("--json: '{}' can't be written: {}", path_, std::strerror(errno)));
  partial_.clear();
}

Progress::Progress(int steps) : steps_(steps), visible_(isatty(STDERR_FILENO)) {}

void Progress::step() {
  ++done_;
  if (!visible_) return;
  const int filled = kBarWidth * done_ / steps_;
  fmt::print(stderr, "\r[{:#<{}}{:.<{}}] {:3} %", "", filled, "", kBarWidth - filled, 100 * done_ / steps_);
}

void Progress::clear() {
  if (visible_) fmt::print(stderr, "\r\033[K");
}

}  // namespace splitq::bench
