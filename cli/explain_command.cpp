// explain: the plan of a problem given by its shapes, or why there is none; and what a run of it in the emulator counts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <vector>

#include "commands.hpp"
#include "count.hpp"
#include "default_device.hpp"
#include "flags.hpp"
#include "tensor.hpp"

namespace splitq::cli {
namespace {

/// Views of tensors that are described and never read: each has addresses of its own, and no memory. Or tensors of random
/// numbers, where they are to be computed with.
class DescribedTensors {
 public:
  TensorView operator()(const char* name, DType dtype, const std::vector<std::int64_t>& shape) {
    if (filled_) {
      tensors_.push_back(random_tensor(name, dtype, shape, static_cast<unsigned>(tensors_.size())));
      return tensors_.back().view;
    }
    TensorView view;
    std::int64_t bytes = 0, next = 0;
    if (!contiguous_view(reinterpret_cast<void*>(next_), dtype, shape, &view, &bytes) ||
        __builtin_add_overflow(next_, bytes, &next) || next > kEnd) {
      throw Error(fmt::format("{}: a tensor of shape ({}) is too large to address", name, fmt::join(shape, ", ")));
    }
    next_ = next / kAlignment * kAlignment + kAlignment;
    return view;
  }
  void fill() { filled_ = true; }

 private:
  static constexpr std::int64_t kAlignment = 4096;
  static constexpr std::int64_t kEnd = std::int64_t{1} << 62;
  std::int64_t next_ = kAlignment;
  bool filled_ = false;
  std::vector<Tensor> tensors_;
};

class ExplainCommand {
 public:
  explicit ExplainCommand(CLI::App& app) {
    constexpr auto kShapes = "Shapes";
    const CLI::Range extent(std::int64_t{0}, std::numeric_limits<std::int64_t>::max());
    const auto size = [&](const char* flag, auto& value, const char* help) {
      return app.add_option(flag, value, help)->check(extent)->type_name("N")->group(kShapes);
    };
    size("--batch", batch_, "Sequences; default 1");
    size("--seqlen-q", seqlen_q_, "Queries of each sequence")->required();
    size("--seqlen-k", seqlen_k_, "Keys of each sequence; default as --seqlen-q");
    size("--heads", heads_, "Query heads; default 1");
    size("--heads-kv", heads_kv_, "Key and value heads; default as --heads");
    size("--head-dim", head_dim_, "D")->required();
    size("--head-dim-v", head_dim_v_, "Dv; default as --head-dim");
    app.add_flag("--packed", packed_, "Packed sequences (cu_seqlens)")->group(kShapes);
    size("--page-size", page_size_, "k and v in pages of so many keys; 0: not paged");

    constexpr auto kComputed = "What is computed";
    app.add_flag("--backward", backward_, "Explain the gradients")->group(kComputed);
    add_dtype(app, dtype_, "Of q, k, v and the output; default fp32")->group(kComputed);
    option_flags_.add_to(app);
    app.add_flag("--bias", bias_, "With a bias of shape (1, Hq, Sq, Sk)")->group(kComputed);
    app.add_flag("--mask", mask_, "With a boolean mask of shape (B, 1, Sq, Sk)")->group(kComputed);
    app.add_flag("--alibi", alibi_, "With ALiBi slopes")->group(kComputed);
    app.add_flag("--sink", sink_, "With sinks")->group(kComputed);
    app.add_flag("--dbias", dbias_, "With the gradient of the bias")->needs("--bias", "--backward")->group(kComputed);
    app.add_flag("--dsink", dsink_, "With the gradient of the sinks")->needs("--sink", "--backward")->group(kComputed);
    app.add_flag("--lse", lse_, "With the log-sum-exp as a result")->group(kComputed);
    execution_flags_.add_to(app);
    app.add_flag("--count", count_, "Run it in the emulator on random numbers, and print what that counts")
        ->group("Where it runs");
    app.add_flag("--json", json_, "Print JSON");
  }

  void run() {
    Execution execution = execution_flags_.execution();
    try {
      if (count_) check_countable(execution);
      describe();
      choose_device(&execution);
      const BackwardTensors& t = tensors_;
      const ForwardTensors forward = forward_of(t);
      const Plan made = backward_ ? plan(tensors_, options_, execution) : plan(forward, options_, execution);
      if (count_) counters_ = count(forward, options_);
      print(made);
    } catch (const std::runtime_error& error) {
      // For a program the refusal is an answer like any other; the exit status tells them apart.
      if (json_) fmt::print("{}\n", nlohmann::ordered_json{{"supported", false}, {"reason", error.what()}}.dump(2));
      throw;
    }
  }

 private:
  static ForwardTensors forward_of(const BackwardTensors& t) { return {t.q, t.k, t.v, t.out, t.softmax_lse}; }

  /// As attend does: auto is a GPU that computes it, else the CPU.
  void choose_device(Execution* execution) {
    const bool automatic = execution->device.kind == DeviceKind::kAuto;
    if (automatic) execution->device = default_device().device;
    if (execution->device.kind != DeviceKind::kCuda) return;
    place(execution->device);
    if (!automatic) return;
    const Support support = backward_ ? is_supported(tensors_, options_, *execution)
                                      : is_supported(forward_of(tensors_), options_, *execution);
    if (!support) place(execution->device = {});
  }

  /// All tensors lie there.
  void place(Device device) {
    BackwardTensors& t = tensors_;
    Options& o = options_;
    for (TensorView* view : {&t.q,
                             &t.k,
                             &t.v,
                             &t.out,
                             &t.softmax_lse,
                             &t.dout,
                             &t.dq,
                             &t.dk,
                             &t.dv,
                             &t.dbias,
                             &t.dsink,
                             &o.bias,
                             &o.mask,
                             &o.alibi_slopes,
                             &o.sink,
                             &o.cu_seqlens_q,
                             &o.cu_seqlens_k,
                             &o.seqlens_q,
                             &o.seqlens_k,
                             &o.block_table}) {
      view->device = device;
    }
  }

  void check_countable(const Execution& execution) const {
    if (execution.device.kind != DeviceKind::kEmulator) throw Error("--count: given without --device emulator");
    const double products = static_cast<double>(batch_) * static_cast<double>(heads_) * static_cast<double>(seqlen_q_) *
                            static_cast<double>(seqlen_k_.value_or(seqlen_q_)) * static_cast<double>(head_dim_);
    if (products > kMostProducts) {
      throw Error(fmt::format("--count: a problem of {:.1e} products of q and k; at most {:.1e} are emulated", products,
                              kMostProducts));
    }
  }

  void describe() {
    const std::int64_t seqlen_k = seqlen_k_.value_or(seqlen_q_), heads_kv = heads_kv_.value_or(heads_);
    const std::int64_t head_dim_v = head_dim_v_.value_or(head_dim_);
    const DType dtype = parse_dtype(dtype_);
    DescribedTensors& tensor = described_;
    if (count_) tensor.fill();
    options_ = option_flags_.options();

    const auto rows = [&](const char* name, bool packed, std::int64_t seqlen, std::int64_t heads, std::int64_t dim) {
      return packed ? tensor(name, dtype, {total(name, seqlen), heads, dim})
                    : tensor(name, dtype, {batch_, seqlen, heads, dim});
    };
    const auto q_rows = [&](const char* name, std::int64_t dim) { return rows(name, packed_, seqlen_q_, heads_, dim); };
    const auto k_rows = [&](const char* name, std::int64_t dim) {
      if (page_size_ == 0) return rows(name, packed_, seqlen_k, heads_kv, dim);
      return tensor(name, dtype, {total(name, pages(seqlen_k)), page_size_, heads_kv, dim});
    };
    BackwardTensors& t = tensors_;
    t.q = q_rows("q", head_dim_);
    t.k = k_rows("k", head_dim_);
    t.v = k_rows("v", head_dim_v);
    t.out = q_rows("out", head_dim_v);
    if (lse_ || backward_) {
      t.softmax_lse = packed_ ? tensor("softmax_lse", DType::kFp32, {heads_, total("softmax_lse", seqlen_q_)})
                              : tensor("softmax_lse", DType::kFp32, {batch_, heads_, seqlen_q_});
    }
    if (bias_) options_.bias = tensor("bias", DType::kFp32, {1, heads_, seqlen_q_, seqlen_k});
    if (mask_) options_.mask = tensor("mask", DType::kBool, {batch_, 1, seqlen_q_, seqlen_k});
    if (alibi_) options_.alibi_slopes = tensor("alibi_slopes", DType::kFp32, {heads_});
    if (sink_) options_.sink = tensor("sink", DType::kFp32, {heads_});
    if (backward_) {
      t.dout = q_rows("dout", head_dim_v);
      t.dq = q_rows("dq", head_dim_);
      t.dk = k_rows("dk", head_dim_);
      t.dv = k_rows("dv", head_dim_v);
      if (dbias_) t.dbias = tensor("dbias", DType::kFp32, {1, heads_, seqlen_q_, seqlen_k});
      if (dsink_) t.dsink = tensor("dsink", DType::kFp32, {heads_});
    }

    // Index tensors are read, so these have their values: every sequence is as long as the next.
    check_index_size(packed_ ? batch_ : 0, "--batch");
    if (packed_) {
      options_.cu_seqlens_q = index(cu_seqlens(seqlen_q_), {batch_ + 1});
      if (page_size_ == 0) options_.cu_seqlens_k = index(cu_seqlens(seqlen_k), {batch_ + 1});
    }
    if (page_size_ > 0) {
      check_index_size(total("block_table", pages(seqlen_k)), "--seqlen-k / --page-size * --batch");
      check_index_size(batch_, "--batch");
      std::vector<std::int64_t> table(static_cast<std::size_t>(batch_ * pages(seqlen_k)));
      std::iota(table.begin(), table.end(), std::int64_t{0});
      options_.block_table = index(std::move(table), {batch_, pages(seqlen_k)});
      options_.seqlens_k = index(std::vector<std::int64_t>(static_cast<std::size_t>(batch_), seqlen_k), {batch_});
    }
  }

  std::int64_t pages(std::int64_t seqlen) const { return seqlen / page_size_ + (seqlen % page_size_ != 0); }

  std::int64_t total(const char* name, std::int64_t each) const {
    std::int64_t out = 0;
    if (__builtin_mul_overflow(batch_, each, &out)) {
      throw Error(fmt::format("{}: {} sequences of {} are too large to address", name, batch_, each));
    }
    return out;
  }

  std::vector<std::int64_t> cu_seqlens(std::int64_t seqlen) const {
    std::vector<std::int64_t> out;
    for (std::int64_t b = 0; b <= batch_; ++b) out.push_back(b * seqlen);
    return out;
  }

  static void check_index_size(std::int64_t size, const char* name) {
    if (size > kMaxIndexSize) {
      throw Error(
          fmt::format("{}: {}; index tensors of at most {} elements can be explained", name, size, kMaxIndexSize));
    }
  }

  TensorView index(std::vector<std::int64_t> values, const std::vector<std::int64_t>& shape) {
    indices_.push_back(std::move(values));
    TensorView view;
    std::int64_t bytes = 0;
    contiguous_view(indices_.back().data(), DType::kInt64, shape, &view, &bytes);
    return view;
  }

  void print(const Plan& made) const {
    if (!json_) {
      fmt::print("{}", made.describe());
      if (count_) fmt::print("\n{}", counters_text(counters_));
      return;
    }
    nlohmann::ordered_json json{{"supported", true},
                                {"backend", made.backend()},
                                {"workspace_bytes", made.workspace_bytes()},
                                {"plan", nlohmann::ordered_json::array()}};
    std::istringstream lines(made.describe());
    for (std::string line; std::getline(lines, line);) json["plan"].push_back(line);
    if (count_) json["counters"] = counters_;
    fmt::print("{}\n", json.dump(2));
  }

  static constexpr double kMostProducts = 1e10;  // some minutes
  static constexpr std::int64_t kMaxIndexSize = std::int64_t{1} << 26;

  std::int64_t batch_ = 1, seqlen_q_ = 0, heads_ = 1, head_dim_ = 0, page_size_ = 0;
  std::optional<std::int64_t> seqlen_k_, heads_kv_, head_dim_v_;
  std::string dtype_ = "fp32";
  bool packed_ = false, backward_ = false, bias_ = false, mask_ = false, alibi_ = false, sink_ = false;
  bool dbias_ = false, dsink_ = false, lse_ = false, count_ = false, json_ = false;
  OptionFlags option_flags_;
  ExecutionFlags execution_flags_;

  DescribedTensors described_;
  nlohmann::ordered_json counters_;
  BackwardTensors tensors_;
  Options options_;
  std::vector<std::vector<std::int64_t>> indices_;
};

}  // namespace

void add_explain_command(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("explain", "Print the plan of a problem, or why there is none");
  const auto state = std::make_shared<ExplainCommand>(command);
  command.callback([state] { state->run(); });
}

}  // namespace splitq::cli
