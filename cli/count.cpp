#include "count.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <span>

#include "convert.hpp"
#include "gpu/run_emulator.hpp"
#include "kernels.hpp"

namespace splitq::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const emulator::Counters& c) {
  return {{"device_memory", {{"bytes_read", c.global_bytes_read}, {"bytes_written", c.global_bytes_written}}},
          {"shared_memory",
           {{"bytes_read", c.shared_bytes_read},
            {"bytes_written", c.shared_bytes_written},
            {"wavefronts", c.shared_wavefronts},
            {"bank_conflicts", c.shared_bank_conflicts}}},
          {"matmul", {{"flops", c.matmul_flops}}},
          {"by_thread",
           {{"ex2", c.ex2},
            {"lg2", c.lg2},
            {"rcp", c.rcp},
            {"fma", c.fma},
            {"max_min", c.max_min},
            {"convert", c.convert}}},
          {"by_warp", {{"shuffles", c.shuffles}, {"votes", c.votes}, {"barriers", c.warp_barriers}}},
          {"by_block", {{"blocks", c.blocks}, {"barriers", c.barriers}}}};
}

}  // namespace

Tensor random_tensor(const std::string& argument, DType dtype, const std::vector<std::int64_t>& shape, unsigned seed) {
  std::mt19937 engine(seed);
  if (dtype == DType::kBool) {
    Tensor tensor = make_tensor(argument, dtype, shape);
    std::bernoulli_distribution visible(0.7);
    const std::span bytes(tensor.buffer.data(), tensor.buffer.size());
    std::ranges::generate(bytes, [&] { return std::byte{visible(engine)}; });
    return tensor;
  }
  Tensor tensor = make_tensor(argument, DType::kFp32, shape);
  std::normal_distribution<float> normal;
  auto* numbers = reinterpret_cast<float*>(tensor.buffer.data());
  std::generate_n(numbers, tensor.buffer.size() / sizeof(float), [&] { return normal(engine); });
  tensor.buffer = to_dtype(std::move(tensor.buffer), npy::Type::kFloat32, dtype);
  tensor.view.dtype = dtype, tensor.view.data = tensor.buffer.data();
  return tensor;
}

Json count(const ForwardTensors& tensors, const Options& options) {
  Problem problem;
  require(make_problem(tensors, options, &problem));
  emulator::Report report;
  require(gpu::run_emulator(problem, gather(tensors, options), {}, &report));
  return to_json(report.counters);
}

std::string counters_text(const Json& counters) {
  std::string text;
  for (const auto& [group, values] : counters.items()) {
    std::string line;
    for (const auto& [name, value] : values.items()) {
      line += fmt::format("{}{} {}", line.empty() ? "" : ", ", name, value.get<std::uint64_t>());
    }
    text += fmt::format("{:<14} {}\n", group, line);
  }
  std::ranges::replace(text, '_', ' ');
  return text;
}

}  // namespace splitq::cli
