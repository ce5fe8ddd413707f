// attend and grad: attention, and its gradients, of tensors in .npy files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>

#include "commands.hpp"
#include "default_device.hpp"
#include "flags.hpp"
#include "gpu/device_tensors.hpp"
#include "kernels.hpp"
#include "output.hpp"
#include "tensor.hpp"

namespace splitq::cli {
namespace {

/// Every tensor of a call. Forward uses a part of them.
struct Call {
  BackwardTensors tensors;
  Options options;
};

using Slot = TensorView& (*)(Call&);
#define SPLITQ_SLOT(member) [](Call& call) -> TensorView& { return call.member; }

struct Input {
  const char* flag;
  const char* help;
  Slot slot;
  Content content = Content::kReal;
  bool fp32 = false;  // always; else of the call's type
  bool required = false;
  bool backward = false;  // of grad alone
};

constexpr Input kInputs[] = {
    {.flag = "--q",
     .help = "(B, Sq, Hq, D), or packed (total, Hq, D)",
     .slot = SPLITQ_SLOT(tensors.q),
     .required = true},
    {.flag = "--k",
     .help = "(B, Sk, Hkv, D), packed (total, Hkv, D), or paged (pages, page size, Hkv, D)",
     .slot = SPLITQ_SLOT(tensors.k),
     .required = true},
    {.flag = "--v", .help = "As k, with its own head size Dv", .slot = SPLITQ_SLOT(tensors.v), .required = true},
    {.flag = "--dout",
     .help = "Gradient of the output",
     .slot = SPLITQ_SLOT(tensors.dout),
     .required = true,
     .backward = true},
    {.flag = "--dlse",
     .help = "Gradient of the log-sum-exp",
     .slot = SPLITQ_SLOT(tensors.dlse),
     .fp32 = true,
     .backward = true},
    {.flag = "--bias",
     .help = "Added to the logits: (B|1, Hq|1, Sq|1, Sk)",
     .slot = SPLITQ_SLOT(options.bias),
     .fp32 = true},
    {.flag = "--mask",
     .help = "bool, true where a key is visible: (B|1, Hq|1, Sq|1, Sk)",
     .slot = SPLITQ_SLOT(options.mask),
     .content = Content::kBool},
    {.flag = "--alibi", .help = "Slopes: (Hq) or (B, Hq)", .slot = SPLITQ_SLOT(options.alibi_slopes), .fp32 = true},
    {.flag = "--sink",
     .help = "Logits that take part in the denominator alone: (Hq)",
     .slot = SPLITQ_SLOT(options.sink),
     .fp32 = true},
    {.flag = "--cu-seqlens-q",
     .help = "Where packed sequences begin: (B + 1), int32 or int64",
     .slot = SPLITQ_SLOT(options.cu_seqlens_q),
     .content = Content::kIndex},
    {.flag = "--cu-seqlens-k",
     .help = "The same for k and v",
     .slot = SPLITQ_SLOT(options.cu_seqlens_k),
     .content = Content::kIndex},
    {.flag = "--seqlens-q",
     .help = "Used lengths: (B)",
     .slot = SPLITQ_SLOT(options.seqlens_q),
     .content = Content::kIndex},
    {.flag = "--seqlens-k",
     .help = "Used lengths of k and v: (B)",
     .slot = SPLITQ_SLOT(options.seqlens_k),
     .content = Content::kIndex},
    {.flag = "--block-table",
     .help = "Pages of each sequence: (B, max pages). k and v are pages",
     .slot = SPLITQ_SLOT(options.block_table),
     .content = Content::kIndex},
};

using Shape = std::vector<std::int64_t>;

Shape shape_of(const TensorView& view) { return {view.shape.begin(), view.shape.begin() + view.rank}; }

/// The shapes of what forward writes. Where q or v is malformed any shape will do: the library refuses q or v.
Shape out_shape(const Call& call) {
  Shape shape = shape_of(call.tensors.q);
  const TensorView& v = call.tensors.v;
  shape.back() = v.shape[v.rank - 1];
  return shape;
}

Shape lse_shape(const Call& call) {
  const TensorView& q = call.tensors.q;
  return q.rank == kMaxRank ? Shape{q.shape[0], q.shape[2], q.shape[1]} : Shape{q.shape[1], q.shape[0]};
}

struct Output {
  const char* flag;
  const char* help;
  Slot slot;
  Shape (*shape)(const Call&);
  bool fp32 = false;            // always; else of the call's type
  bool backward = false;        // of grad alone
  bool always = false;          // else computed only if its file is asked for
  const char* needs = nullptr;  // another flag without which it has no meaning
};

#define SPLITQ_SHAPE_OF(member) [](const Call& call) { return shape_of(call.member); }

constexpr Output kOutputs[] = {
    {.flag = "--out",
     .help = "The output: as q, with head size Dv",
     .slot = SPLITQ_SLOT(tensors.out),
     .shape = out_shape,
     .always = true},
    {.flag = "--lse",
     .help = "Log-sum-exp of the logits: (B, Hq, Sq), packed (Hq, total); fp32",
     .slot = SPLITQ_SLOT(tensors.softmax_lse),
     .shape = lse_shape,
     .fp32 = true},
    {.flag = "--dq",
     .help = "Gradient of q",
     .slot = SPLITQ_SLOT(tensors.dq),
     .shape = SPLITQ_SHAPE_OF(tensors.q),
     .backward = true,
     .always = true},
    {.flag = "--dk",
     .help = "Gradient of k",
     .slot = SPLITQ_SLOT(tensors.dk),
     .shape = SPLITQ_SHAPE_OF(tensors.k),
     .backward = true,
     .always = true},
    {.flag = "--dv",
     .help = "Gradient of v",
     .slot = SPLITQ_SLOT(tensors.dv),
     .shape = SPLITQ_SHAPE_OF(tensors.v),
     .backward = true,
     .always = true},
    {.flag = "--dbias",
     .help = "Gradient of the bias; fp32",
     .slot = SPLITQ_SLOT(tensors.dbias),
     .shape = SPLITQ_SHAPE_OF(options.bias),
     .fp32 = true,
     .backward = true,
     .needs = "--bias"},
    {.flag = "--dsink",
     .help = "Gradient of the sink; fp32",
     .slot = SPLITQ_SLOT(tensors.dsink),
     .shape = SPLITQ_SHAPE_OF(options.sink),
     .fp32 = true,
     .backward = true,
     .needs = "--sink"},
};

#undef SPLITQ_SLOT
#undef SPLITQ_SHAPE_OF

template <class Visit>
void for_each_view(Call& call, Visit&& visit) {
  for (const Input& input : kInputs) visit(input.flag, input.slot(call));
  for (const Output& output : kOutputs) visit(output.flag, output.slot(call));
}

/// The same call, its tensors on the device: to ask whether it is supported there.
Call placed(Call call, Device device) {
  if (device.kind != DeviceKind::kCuda) return call;
  for_each_view(call, [&](const char*, TensorView& view) { view.device = device; });
  return call;
}

ForwardTensors forward_of(const Call& call) {
  const BackwardTensors& t = call.tensors;
  return {t.q, t.k, t.v, t.out, t.softmax_lse};
}

class AttentionCommand {
 public:
  AttentionCommand(CLI::App& app, bool backward) : backward_(backward) {
    for (const Input& input : kInputs) {
      if (input.backward && !backward) continue;
      app.add_option(input.flag, paths_[input.flag], input.help)
          ->required(input.required)
          ->type_name("FILE")
          ->group("Input (.npy)");
    }
    for (const Output& output : kOutputs) {
      if (output.backward && !backward) continue;
      // What forward writes is what attend is for, and a by-product of grad.
      const bool required = output.always && output.backward == backward;
      CLI::Option* option = app.add_option(output.flag, paths_[output.flag], output.help)
                                ->required(required)
                                ->type_name("FILE")
                                ->group("Output (.npy)");
      if (output.needs) option->needs(app.get_option(output.needs));
    }
    option_flags_.add_to(app);
    add_dtype(app, dtype_, "Convert to this type before computing; bf16 results are written as float32")
        ->group("What is computed");
    execution_flags_.add_to(app);
  }

  void run() {
    Call call;
    call.options = option_flags_.options();
    Execution execution = execution_flags_.execution();

    OutputFiles files;
    for (const Output& output : kOutputs) {
      if (asked(output.flag)) files.announce(output.flag, *paths_[output.flag]);
    }

    std::vector<Tensor> inputs;
    const std::optional<DType> dtype = dtype_.empty() ? std::nullopt : std::optional(parse_dtype(dtype_));
    for (const Input& input : kInputs) {
      if (!asked(input.flag)) continue;
      inputs.push_back(load_tensor(input.flag, *paths_[input.flag], input.content, input.fp32 ? DType::kFp32 : dtype));
      input.slot(call) = inputs.back().view;
    }
    if (const int rank = call.tensors.q.rank; rank < 3) {
      throw Error(fmt::format("--q: has {} dimensions; it may be (B, Sq, Hq, D), or packed (total, Hq, D)", rank));
    }

    std::map<std::string, Tensor> outputs;
    for (const Output& output : kOutputs) {
      // Backward reads out and softmax_lse, so that grad computes both, asked for or not.
      const bool needed = output.backward ? backward_ && output.always : backward_ || output.always;
      if (!needed && !asked(output.flag)) continue;
      const DType type = output.fp32 ? DType::kFp32 : call.tensors.q.dtype;
      Tensor& tensor = outputs[output.flag] = make_tensor(output.flag, type, output.shape(call));
      output.slot(call) = tensor.view;
    }

    execution.device = choose_device(call, execution);
    compute(call, execution);

    for (auto& [flag, tensor] : outputs) {
      if (asked(flag)) files.write(flag, std::move(tensor));
    }
    files.publish();
  }

 private:
  Support supported(const Call& call, const Execution& execution) const {
    if (backward_) return is_supported(call.tensors, call.options, execution);
    return is_supported(forward_of(call), call.options, execution);
  }

  /// --device, once the problem is known: auto is a GPU that computes it, else the CPU.
  Device choose_device(const Call& call, Execution execution) const {
    if (execution.device.kind != DeviceKind::kAuto) return execution.device;
    execution.device = default_device().device;
    return supported(placed(call, execution.device), execution) ? execution.device : Device{};
  }

  void compute(Call call, const Execution& execution) const {
    const Device device = execution.device;
    // Asked first: what is refused should not wait for copies, nor for forward what backward refuses.
    if (const Support support = supported(placed(call, device), execution); !support) {
      throw splitq::Error(support.code, support.reason);
    }
    if (device.kind == DeviceKind::kCuda) {
      gpu::DeviceTensors copies;
      require(gpu::DeviceTensors::open(device.index, &copies));
      for_each_view(call, [&](const char* flag, TensorView& view) { require(copies.upload(flag, &view)); });
      const ForwardTensors t = forward_of(call);
      forward(t.q, t.k, t.v, t.out, call.options, t.softmax_lse, execution);
      require(copies.download());
      return;
    }
    const ForwardTensors t = forward_of(call);
    forward(t.q, t.k, t.v, t.out, call.options, t.softmax_lse, execution);
    if (backward_) backward(call.tensors, call.options, execution);
  }

  bool asked(const std::string& flag) const {
    const auto path = paths_.find(flag);
    return path != paths_.end() && path->second;
  }

  bool backward_;
  std::map<std::string, std::optional<std::string>> paths_;  // by flag
  std::string dtype_;
  OptionFlags option_flags_;
  ExecutionFlags execution_flags_;
};

void add(CLI::App& app, const char* name, const char* description, bool backward) {
  CLI::App& command = *app.add_subcommand(name, description);
  const auto state = std::make_shared<AttentionCommand>(command, backward);
  command.callback([state] { state->run(); });
}

}  // namespace

void add_attend_command(CLI::App& app) { add(app, "attend", "Compute attention", false); }
void add_grad_command(CLI::App& app) { add(app, "grad", "Compute the gradients of attention", true); }

}  // namespace splitq::cli
