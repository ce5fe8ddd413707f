#include "bench/bench_command.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "bench/measure.hpp"
#include "bench/openblas.hpp"
#include "bench/report.hpp"
#include "problem/names.hpp"

namespace splitq::bench {
namespace {

const std::map<std::string, DType> kDTypes = {{"fp32", DType::kFp32}, {"fp16", DType::kFp16}, {"bf16", DType::kBf16}};

struct Arguments {
  std::vector<std::int64_t> head_dims, seqlens;
  std::vector<std::string> dtypes;
  std::optional<std::int64_t> heads, heads_kv, batch;
  std::string causal = "both", device = "cpu";
  bool backward = false, decode = false, quick = false, no_torch = false;
  int threads = 0;
  std::optional<int> repeat;
  std::string json, python, blas_core;
};

template <class T>
std::vector<T> given_or(const std::vector<T>& given, std::vector<T> otherwise) {
  return given.empty() ? otherwise : given;
}

std::vector<Case> cases_of(const Arguments& a) {
  const std::int64_t heads = a.heads.value_or(a.decode ? 32 : 8);
  const std::int64_t heads_kv = a.heads_kv.value_or(a.heads ? heads : 8);
  if (heads % heads_kv != 0)
    throw Error(StatusCode::kInvalidArgument,
                fmt::format("--heads-kv: {} does not divide --heads {}; it must", heads_kv, heads));
  const std::vector<bool> masks = a.decode || a.causal == "no" ? std::vector{false}
                                  : a.causal == "yes"          ? std::vector{true}
                                                               : std::vector{false, true};
  const auto seqlens = given_or<std::int64_t>(a.seqlens, a.decode  ? std::vector<std::int64_t>{16384}
                                                         : a.quick ? std::vector<std::int64_t>{512, 2048}
                                                                   : std::vector<std::int64_t>{512, 1024, 2048, 4096});
  std::vector<Case> cases;
  for (const std::string& name : given_or<std::string>(a.dtypes, {a.decode ? "bf16" : "fp32"}))
    for (bool backward : a.backward ? std::vector{false, true} : std::vector{false})
      for (std::int64_t head_dim : given_or<std::int64_t>(
               a.head_dims, a.decode ? std::vector<std::int64_t>{128} : std::vector<std::int64_t>{64, 128}))
        for (bool causal : masks)
          for (std::int64_t seqlen : seqlens)
            cases.push_back({kDTypes.at(name), a.batch.value_or(1), heads, heads_kv, a.decode ? 1 : seqlen, seqlen,
                             head_dim, causal, backward});
  return cases;
}

/// The FlashAttention papers' points: 16,384 tokens, heads of 2,048 elements in all.
std::vector<Case> cuda_cases_of(const Arguments& a) {
  constexpr std::int64_t kTokens = 16384, kWidth = 2048;
  const std::vector<bool> masks = a.causal == "no"    ? std::vector{false}
                                  : a.causal == "yes" ? std::vector{true}
                                                      : std::vector{false, true};
  const auto seqlens =
      given_or<std::int64_t>(a.seqlens, a.quick ? std::vector<std::int64_t>{1024, 8192}
                                                : std::vector<std::int64_t>{512, 1024, 2048, 4096, 8192, 16384});
  std::vector<Case> cases;
  for (const std::string& name : given_or<std::string>(a.dtypes, {"bf16"}))
    for (const std::int64_t head_dim : given_or<std::int64_t>(a.head_dims, {64, 128, 256}))
      for (const bool causal : masks)
        for (const std::int64_t seqlen : seqlens) {
          const std::int64_t heads = a.heads.value_or(std::max<std::int64_t>(1, kWidth / head_dim));
          cases.push_back({.dtype = kDTypes.at(name),
                           .batch = a.batch.value_or(std::max<std::int64_t>(1, kTokens / seqlen)),
                           .heads_q = heads,
                           .heads_kv = a.heads_kv.value_or(heads),
                           .seqlen_q = seqlen,
                           .seqlen_k = seqlen,
                           .head_dim = head_dim,
                           .causal = causal,
                           .gpu = true});
        }
  return cases;
}

/// --python, else SPLITQ_PYTHON, else a virtual environment here, else python3.
std::string find_python(const Arguments& a) {
  if (!a.python.empty()) return a.python;
  if (const char* python = std::getenv("SPLITQ_PYTHON")) return python;
  return std::filesystem::exists(".venv/bin/python") ? ".venv/bin/python" : "python3";
}

std::string chosen_backend() {
  for (const BackendInfo& backend : backends())
    if (backend.chosen) return backend.name;
  return "no backend";
}

std::string gpu_name(Device device) {
  for (const BackendInfo& backend : backends())
    if (backend.name == to_string(device)) return backend.why.substr(0, backend.why.find(','));
  return "unknown GPU";
}

Device first_gpu_or_cpu() {
  for (const BackendInfo& backend : backends())
    if (const auto device = parse_device(backend.name);
        device && device->kind == DeviceKind::kCuda && backend.available)
      return *device;
  return {};
}

/// Measures, prints and writes every case. `complete` adds to a result what was measured apart.
void measure_all(const std::vector<Case>& cases, const std::vector<std::unique_ptr<Contestant>>& contestants,
                 Yardstick* yardstick, const Sampling& sampling, const Machine& machine, JsonFile& json,
                 Progress& progress, const std::function<void(std::size_t, CaseResult&)>& complete) {
  std::vector<CaseResult> results;
  std::string wrong;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CaseResult result = measure(cases[i], contestants, yardstick, sampling, [&] { progress.step(); });
    complete(i, result);
    for (const Row& row : result.rows) {
      if (!(row.difference <= tolerance(cases[i].dtype)))
        wrong += fmt::format("\n  {} at seqlen {}: {:.1e}", row.contestant, cases[i].seqlen_k, row.difference);
    }
    progress.clear();
    print_case(result, i > 0 ? &cases[i - 1] : nullptr);
    results.push_back(std::move(result));
  }
  json.write(machine, results);
  if (!wrong.empty()) throw Error(StatusCode::kInternal, "results differ from the first contestant's:" + wrong);
}

void run_on_cuda(const Arguments& a, Device device);

void run(const Arguments& a) {
  Device device = *parse_device(a.device);
  if (device.kind == DeviceKind::kAuto) device = first_gpu_or_cpu();
  if (device.kind == DeviceKind::kCuda) return run_on_cuda(a, device);
  if (device.kind == DeviceKind::kEmulator)
    throw Error(StatusCode::kUnsupported,
                "--device: emulator; must be cpu or cuda: its time says nothing of a GPU's (explain --device emulator "
                "--count counts the work)");
  const std::vector<Case> cases = cases_of(a);
  JsonFile json(a.json);
  const int threads = a.threads > 0 ? a.threads : int(std::thread::hardware_concurrency());
  OpenBlas::choose_core(a.blas_core, threads);
  const bool blas = OpenBlas::missing().empty();
  const Settings settings{threads, find_python(a)};
  // The materialised one comes first: ratios and differences are taken from it.
  constexpr Schedule kFa1{Schedule::Rescale::kEveryStep, Schedule::Parallel::kBatchHeads};
  const std::vector<Entrant> entrants = {
      {"materialised", [&] { return make_materialised(settings, Kept::kP); }},
      {"materialised, P again", [&] { return make_materialised(settings, Kept::kLse); }},
      {"splitq FA-1", [&] { return make_splitq(settings, kFa1, "splitq FA-1"); }},
      {"splitq FA-2", [&] { return make_splitq(settings, Schedule{}, "splitq FA-2"); }},
  };
  const int rounds = a.repeat.value_or(a.quick ? 3 : 7);
  Progress progress(int(cases.size()) * (int(2 * entrants.size()) + 1 + rounds));

  // Memory first, while this process has no threads that a fork would lose.
  std::vector<std::vector<double>> extra_bytes;
  for (const Case& shape : cases) {
    std::vector<double>& row = extra_bytes.emplace_back();
    for (const Entrant& entrant : entrants) row.push_back(extra_bytes_in_child(entrant, shape)), progress.step();
  }

  std::vector<std::unique_ptr<Contestant>> contestants;
  for (const Entrant& entrant : entrants) contestants.push_back(entrant.make());
  Machine machine{processor_name(), threads, chosen_backend(), blas ? OpenBlas::get().core() : OpenBlas::missing(),
                  "left out"};
  if (!a.no_torch) {
    try {
      contestants.push_back(make_torch(settings));
      machine.torch = contestants.back()->name() + ", " + settings.python;
    } catch (const std::exception& error) {
      machine.torch = fmt::format("not measured ({}: {})", settings.python, error.what());
    }
  }
  progress.clear();
  print_machine(machine);

  std::unique_ptr<Yardstick> gemm, read;
  if (a.decode)
    read = make_read_yardstick(threads);
  else if (blas)
    gemm = make_gemm_yardstick(threads);

  measure_all(cases, contestants, a.decode ? read.get() : gemm.get(), {.rounds = rounds}, machine, json, progress,
              [&](std::size_t i, CaseResult& result) {
                for (Row& row : result.rows)
                  for (std::size_t j = 0; j < entrants.size(); ++j)
                    if (entrants[j].name == row.contestant) row.extra_bytes = extra_bytes[i][j];
              });
}

/// In bursts: 3 warm-ups, then single launches, in turns with pauses between.
void run_on_cuda(const Arguments& a, Device device) {
  if (a.backward || a.decode)
    throw Error(StatusCode::kUnsupported, fmt::format("--device: {} with {}; must be cpu", to_string(device),
                                                      a.decode ? "--decode" : "--backward"));
  const std::vector<Case> cases = cuda_cases_of(a);
  for (const Case& c : cases)
    if (c.heads_q % c.heads_kv != 0)
      throw Error(StatusCode::kInvalidArgument,
                  fmt::format("--heads-kv: {} does not divide --heads {}; it must", c.heads_kv, c.heads_q));
  JsonFile json(a.json);
  const Settings settings{1, find_python(a), device};
  std::unique_ptr<Contestant> splitq = make_splitq_cuda(settings);
  Machine machine{gpu_name(device), 0, to_string(device), "left out", "left out"};
  std::vector<std::unique_ptr<Contestant>> contestants;
  std::unique_ptr<Yardstick> matmul;
  if (!a.no_torch) {
    try {
      contestants.push_back(make_torch(settings));
      matmul = make_matmul_yardstick(*contestants.back());
      machine.torch = contestants.back()->name() + ", " + settings.python;
    } catch (const std::exception& error) {
      machine.torch = fmt::format("not measured ({}: {})", settings.python, error.what());
    }
  }
  contestants.push_back(std::move(splitq));
  const Sampling sampling{.rounds = a.repeat.value_or(11), .warm_ups = 3, .sample_seconds = 0};
  Progress progress(int(cases.size()) * (int(contestants.size()) + sampling.rounds));
  print_machine(machine);
  measure_all(cases, contestants, matmul.get(), sampling, machine, json, progress, [](std::size_t, CaseResult&) {});
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measure attention on this machine, side by side");
  auto a = std::make_shared<Arguments>();
  const CLI::Range positive(std::int64_t(1), std::int64_t(1) << 24);
  command->add_option("--head-dim", a->head_dims, "Head sizes (64,128; decode 128; cuda 64,128,256)")
      ->delimiter(',')
      ->check(positive);
  command->add_option("--seqlen", a->seqlens, "Sequence lengths (512,1024,2048,4096; decode 16384; cuda to 16384)")
      ->delimiter(',')
      ->check(positive);
  const CLI::Validator is_device(
      [](std::string& text) {
        return parse_device(text) ? "" : fmt::format("{} is none of auto, cpu, cuda, cuda:N", text);
      },
      "");
  command->add_option("--device", a->device, "auto, cpu, cuda or cuda:N (cpu)")->check(is_device)->type_name("NAME");
  command->add_option("--causal", a->causal, "both, yes or no")->check(CLI::IsMember({"both", "yes", "no"}));
  command->add_option("--dtype", a->dtypes, "fp32, fp16, bf16 (fp32; decode and cuda bf16)")
      ->delimiter(',')
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}));
  command->add_option("--heads", a->heads, "Query heads (8; decode 32; cuda 2048 / head-dim)")->check(positive);
  command->add_option("--heads-kv", a->heads_kv, "Key/value heads (as --heads; decode 8)")->check(positive);
  command->add_option("--batch", a->batch, "Sequences (1; cuda 16384 / seqlen)")->check(positive);
  command->add_flag("--backward", a->backward, "Measure the gradients too");
  auto* decode = command->add_flag("--decode", a->decode, "One query against a long cache, in GB/s");
  command->get_option("--backward")->excludes(decode);
  command->get_option("--causal")->excludes(decode);
  command->add_option("--threads", a->threads, "Threads (all)")
      ->check(CLI::Range(1, int(std::thread::hardware_concurrency())));
  command->add_option("--repeat", a->repeat, "Rounds; the median is printed (7, quick 3, cuda 11)")
      ->check(CLI::Range(1, 1000));
  command->add_flag("--quick", a->quick, "Fewer lengths and rounds");
  command->add_option("--json", a->json, "Write the results here too");
  command->add_option("--python", a->python, "A Python with torch (SPLITQ_PYTHON, .venv, python3)");
  command->add_flag("--no-torch", a->no_torch, "Leave PyTorch out");
  command->add_option("--blas-core", a->blas_core,
                      "OpenBLAS's kernel, such as SkylakeX (OPENBLAS_CORETYPE, else the fastest)");
  command->callback([a] { run(*a); });
}

}  // namespace splitq::bench
