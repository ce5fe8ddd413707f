// What this machine can compute with.
#include <fmt/format.h>

#include "cpu/instruction_sets.hpp"
#include "cuda/device.hpp"
#include "emulator/compile.hpp"
#include "splitq/splitq.hpp"

namespace splitq {
namespace {

void add_cpu(std::vector<BackendInfo>* all) {
  const std::string_view forced = cpu::forced_instruction_set();
  for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
    BackendInfo info;
    info.name = "cpu/" + std::string(set.name);
    info.available = set.available;
    info.chosen = set.available && (forced.empty() ? &set == &cpu::best_instruction_set() : set.name == forced);
    info.why = std::string(set.description) + (set.available ? "" : ": this processor has not got it");
    if (info.chosen) info.why += forced.empty() ? ": the first that this processor has" : ": SPLITQ_INSTRUCTION_SET";
    all->push_back(std::move(info));
  }
}

void add_cuda(std::vector<BackendInfo>* all) {
  const cuda::Driver* driver = nullptr;
  int count = 0;
  Status status = cuda::driver(&driver);
  if (status.ok()) status = cuda::device_count(*driver, &count);
  if (status.ok() && count == 0) status = Status::unsupported("there is no CUDA device");
  if (!status.ok()) all->push_back({"cuda", false, false, status.message});
  for (int i = 0; i < count; ++i) {
    cuda::DeviceProperties properties;
    status = cuda::read_properties(*driver, i, &properties);
    const bool ok = status.ok();
    all->push_back({fmt::format("cuda:{}", i), ok, ok,
                    ok ? properties.name + ", forward: for tensors that lie there" : status.message});
  }
}

void add_emulator(std::vector<BackendInfo>* all) {
  std::string compiler;
  const Status status = emulator::host_compiler().find_compiler(&compiler);
  all->push_back(
      {"emulator", status.ok(), false,
       status.ok() ? "the GPU's kernels on the CPU, forward: where asked for; " + compiler : status.message});
}

}  // namespace

std::vector<BackendInfo> backends() {
  std::vector<BackendInfo> all;
  add_cpu(&all);
  add_cuda(&all);
  add_emulator(&all);
  return all;
}

}  // namespace splitq
