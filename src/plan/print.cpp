// A plan in words.
#include <fmt/format.h>

#include "plan/plan.hpp"
#include "problem/names.hpp"

namespace splitq {
namespace {

std::string to_string(const CpuPlan& c) {
  const bool every_step = c.schedule.rescale == Schedule::Rescale::kEveryStep;
  const bool heads = c.schedule.parallel == Schedule::Parallel::kBatchHeads;
  return fmt::format(
      "threads      {}\n"
      "tile         {} query rows x {} keys\n"
      "packed keys  {}\n"
      "decode       {}\n"
      "split keys   {}\n"
      "schedule     output divided by the row sum {}, parallel over {}\n",
      c.threads, c.tile_m, c.tile_n,
      c.pack_heads > 0 ? fmt::format("once for all query tiles, {} heads at a time", c.pack_heads) : "no",
      c.decode_rows > 0 ? fmt::format("sequences of at most {} rows", c.decode_rows) : "never",
      c.split_keys > 0 ? fmt::format("every {}", c.split_keys) : "no", every_step ? "in every step" : "at the end",
      heads ? "batch x heads" : "batch x heads x query rows");
}

std::string to_string(const GpuPlan& g) {
  return fmt::format(
      "kernel       {}\n"
      "blocks       {} of {} threads, {} bytes of shared memory each\n",
      g.kernel, g.blocks, g.threads, g.shared_bytes);
}

}  // namespace

std::string backend_name(const ExecutionPlan& plan) {
  const bool cpu = plan.device.kind == DeviceKind::kCpu;
  return fmt::format("{}/{}", to_string(plan.device), cpu ? plan.cpu.instruction_set : plan.gpu.architecture);
}

std::string to_string(const ExecutionPlan& plan) {
  return fmt::format("backend      {}\n{}workspace    {} bytes at most\n", backend_name(plan),
                     plan.device.kind == DeviceKind::kCpu ? to_string(plan.cpu) : to_string(plan.gpu),
                     plan.workspace_bytes);
}

}  // namespace splitq
