#include "cuda/compile.hpp"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <regex>

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

/// The sum of the numbers that the expression's first group matches.
int sum_of(const std::string& log, const char* expression) {
  const std::regex pattern(expression);
  int sum = 0;
  for (std::sregex_iterator at(log.begin(), log.end(), pattern), end; at != end; ++at) sum += std::stoi((*at)[1]);
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
  return {.registers = sum_of(log, R"(Used (\d+) registers)"),
          .spill_store_bytes = sum_of(log, R"((\d+) bytes spill stores)"),
          .spill_load_bytes = sum_of(log, R"((\d+) bytes spill loads)"),
          .stack_bytes = sum_of(log, R"((\d+) bytes stack frame)"),
          .static_shared_bytes = sum_of(log, R"((\d+) bytes smem)")};
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
