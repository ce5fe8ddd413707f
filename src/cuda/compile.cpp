#include "cuda/compile.hpp"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <memory>
#include <string_view>

#include "cuda/architecture.hpp"

namespace splitq::cuda {
namespace {

constexpr NvrtcResult kSuccess = 0;

using Program = std::unique_ptr<NvrtcProgramTag, std::function<void(NvrtcProgram)>>;

/// NVRTC hands out every text the same way: first its size, then its bytes.
std::string text_of(NvrtcProgram program, NvrtcResult (*size)(NvrtcProgram, std::size_t*),
                    NvrtcResult (*get)(NvrtcProgram, char*)) {
  std::size_t bytes = 0;
  if (size(program, &bytes) != kSuccess || bytes == 0) return {};
  std::string out(bytes, '\0');
  return get(program, out.data()) == kSuccess ? out : std::string{};
}

/// As text_of, without the terminating zero that NVRTC counts.
std::string log_of(const Nvrtc& nvrtc, NvrtcProgram program) {
  std::string out = text_of(program, nvrtc.get_program_log_size, nvrtc.get_program_log);
  while (!out.empty() && out.back() == '\0') out.pop_back();
  return out;
}

/// The sum of the numbers that stand before a text. (No std::regex: threads that make one at the same time race.)
int sum_before(std::string_view log, std::string_view text) {
  int sum = 0;
  for (std::size_t at = log.find(text); at != std::string_view::npos; at = log.find(text, at + 1)) {
    std::size_t first = at;
    while (first > 0 && log[first - 1] >= '0' && log[first - 1] <= '9') --first;
    int number = 0;
    std::from_chars(log.data() + first, log.data() + at, number);
    sum += number;
  }
  return sum;
}

}  // namespace

std::vector<std::string> compile_options(const std::string& architecture) {
  return {"--gpu-architecture=" + architecture, "--std=c++20",
          "--device-as-default-execution-space",  // the constexpr functions that host and device share
          "--ptxas-options=-v"};
}

KernelUsage parse_usage(const std::string& log) {
  // A function that was not inlined has lines of its own, and its spills count like the kernel's.
  return {.registers = sum_before(log, " registers"),
          .spill_store_bytes = sum_before(log, " bytes spill stores"),
          .spill_load_bytes = sum_before(log, " bytes spill loads"),
          .stack_bytes = sum_before(log, " bytes stack frame"),
          .static_shared_bytes = sum_before(log, " bytes smem")};
}

Status compile(const Nvrtc& nvrtc, const std::vector<Source>& sources, const KernelSpec& spec, CompiledKernel* kernel,
               std::string* ptx) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<const char*> texts, names;
  for (const Source& source : sources) {
    texts.push_back(source.text.c_str());
    names.push_back(source.name.c_str());
  }
  const std::string unit = fmt::format("#include \"{}\"\n", spec.header);
  NvrtcProgram created = nullptr;
  if (nvrtc.create_program(&created, unit.c_str(), "kernel.cu", static_cast<int>(sources.size()), texts.data(),
                           names.data()) != kSuccess) {
    return {StatusCode::kInternal, fmt::format("NVRTC: no program could be made for {}", to_string(spec))};
  }
  const Program program(created, [&](NvrtcProgram p) { nvrtc.destroy_program(&p); });

  const std::vector<std::string> options = compile_options(spec.architecture);
  std::vector<const char*> arguments;
  for (const std::string& option : options) arguments.push_back(option.c_str());
  const bool built = nvrtc.add_name_expression(created, spec.entry.c_str()) == kSuccess &&
                     nvrtc.compile_program(created, static_cast<int>(arguments.size()), arguments.data()) == kSuccess;
  CompiledKernel out;
  out.log = log_of(nvrtc, created);
  if (!built) {
    return {StatusCode::kInternal, fmt::format("NVRTC: {} does not compile:\n{}", to_string(spec), out.log)};
  }

  const char* lowered = nullptr;
  if (nvrtc.get_lowered_name(created, spec.entry.c_str(), &lowered) == kSuccess) out.lowered_name = lowered;
  const bool as_ptx = is_virtual(spec.architecture);
  out.image = as_ptx ? text_of(created, nvrtc.get_ptx_size, nvrtc.get_ptx)
                     : text_of(created, nvrtc.get_cubin_size, nvrtc.get_cubin);
  if (out.lowered_name.empty() || out.image.empty()) {
    return {StatusCode::kInternal, fmt::format("NVRTC: {} gave no code:\n{}", to_string(spec), out.log)};
  }
  if (ptx) *ptx = as_ptx ? out.image : text_of(created, nvrtc.get_ptx_size, nvrtc.get_ptx);
  out.usage = parse_usage(out.log);
  out.compiler = nvrtc.name();
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  *kernel = std::move(out);
  return {};
}

}  // namespace splitq::cuda
