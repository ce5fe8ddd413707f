// splitq.h: the C++ interface behind status codes.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "api/c_structs.hpp"

static_assert(SPLITQ_MAX_RANK == splitq::kMaxRank);
static_assert(SPLITQ_INTERNAL == static_cast<int>(splitq::StatusCode::kInternal));
static_assert(SPLITQ_BOOL == static_cast<int>(splitq::DType::kBool));
static_assert(SPLITQ_DEVICE_EMULATOR == static_cast<int>(splitq::DeviceKind::kEmulator));

/// A plan with its texts: they live as long as it does.
struct splitq_plan {
  explicit splitq_plan(splitq::Plan p) : plan(std::move(p)), description(plan.describe()), backend(plan.backend()) {}
  splitq::Plan plan;
  std::string description, backend;
};

namespace {

using namespace splitq::c_abi;

/// The text of this thread's last error. Setting it never fails: a message that finds no memory is cut.
class LastError {
 public:
  const char* text() const { return text_.c_str(); }
  void clear() noexcept { text_.clear(); }
  void set(const char* text) noexcept {
    try {
      text_ = text;
    } catch (const std::bad_alloc&) {
      text_.assign("out of memory", std::min<std::size_t>(text_.capacity(), 13));
    }
  }

 private:
  std::string text_;
};
thread_local LastError last_error;

/// Runs the body of one C function.
template <class F>
splitq_status guarded(F&& body) noexcept {
  last_error.clear();
  try {
    body();
    return SPLITQ_OK;
  } catch (const splitq::Error& error) {
    last_error.set(error.what());
    return static_cast<splitq_status>(error.code());
  } catch (const std::bad_alloc&) {
    last_error.set("out of memory");
    return SPLITQ_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    last_error.set(error.what());
    return SPLITQ_INTERNAL;
  } catch (...) {
    last_error.set("an error without a text");
    return SPLITQ_INTERNAL;
  }
}

void raise(splitq::StatusCode code, const std::string& message) { throw splitq::Error(code, message); }

void raise_unless(const splitq::Support& support) {
  if (!support) raise(support.code, support.reason);
}

template <class T>
void check_pointer(const char* name, const T* pointer) {
  if (pointer == nullptr) raise(splitq::StatusCode::kInvalidArgument, fmt::format("{}: NULL; must point to one", name));
}

/// Listed once: the texts live as long as the program.
const std::vector<splitq::BackendInfo>& all_backends() {
  static const std::vector<splitq::BackendInfo> list = splitq::backends();
  return list;
}

}  // namespace

extern "C" {

splitq_tensor splitq_tensor_contiguous(const void* data, splitq_dtype dtype, int32_t rank, const int64_t* shape) {
  splitq_tensor t = SPLITQ_TENSOR_INIT;
  t.data = const_cast<void*>(data);  // inputs are never written
  t.dtype = dtype;
  t.rank = rank;
  std::int64_t stride = 1;
  for (int d = std::min<int>(rank, SPLITQ_MAX_RANK) - 1; d >= 0; --d) {
    t.shape[d] = shape[d];
    t.strides[d] = stride;
    // A product that does not fit makes the size of the tensor not fit either, which the call refuses.
    if (__builtin_mul_overflow(stride, std::max<std::int64_t>(shape[d], 1), &stride)) stride = 0;
  }
  return t;
}

const char* splitq_last_error(void) { return last_error.text(); }
const char* splitq_version(void) { return splitq::version(); }

splitq_status splitq_forward(const splitq_forward_tensors* tensors, const splitq_options* options_,
                             const splitq_execution* execution_) {
  return guarded([&] {
    const splitq::ForwardTensors t = forward_tensors(tensors);
    splitq::forward(t.q, t.k, t.v, t.out, options(options_), t.softmax_lse, execution(execution_));
  });
}

splitq_status splitq_backward(const splitq_backward_tensors* tensors, const splitq_options* options_,
                              const splitq_execution* execution_) {
  return guarded([&] { splitq::backward(backward_tensors(tensors), options(options_), execution(execution_)); });
}

splitq_status splitq_is_supported_forward(const splitq_forward_tensors* tensors, const splitq_options* options_,
                                          const splitq_execution* execution_) {
  return guarded(
      [&] { raise_unless(splitq::is_supported(forward_tensors(tensors), options(options_), execution(execution_))); });
}

splitq_status splitq_is_supported_backward(const splitq_backward_tensors* tensors, const splitq_options* options_,
                                           const splitq_execution* execution_) {
  return guarded(
      [&] { raise_unless(splitq::is_supported(backward_tensors(tensors), options(options_), execution(execution_))); });
}

splitq_status splitq_plan_forward(const splitq_forward_tensors* tensors, const splitq_options* options_,
                                  const splitq_execution* execution_, splitq_plan** plan) {
  return guarded([&] {
    check_pointer("plan", plan);
    *plan = nullptr;
    *plan = new splitq_plan(splitq::plan(forward_tensors(tensors), options(options_), execution(execution_)));
  });
}

splitq_status splitq_plan_backward(const splitq_backward_tensors* tensors, const splitq_options* options_,
                                   const splitq_execution* execution_, splitq_plan** plan) {
  return guarded([&] {
    check_pointer("plan", plan);
    *plan = nullptr;
    *plan = new splitq_plan(splitq::plan(backward_tensors(tensors), options(options_), execution(execution_)));
  });
}

splitq_status splitq_plan_run_forward(const splitq_plan* plan, const splitq_forward_tensors* tensors,
                                      const splitq_options* options_) {
  return guarded([&] {
    check_pointer("plan", plan);
    plan->plan.run(forward_tensors(tensors), options(options_));
  });
}

splitq_status splitq_plan_run_backward(const splitq_plan* plan, const splitq_backward_tensors* tensors,
                                       const splitq_options* options_) {
  return guarded([&] {
    check_pointer("plan", plan);
    plan->plan.run(backward_tensors(tensors), options(options_));
  });
}

const char* splitq_plan_describe(const splitq_plan* plan) { return plan == nullptr ? "" : plan->description.c_str(); }
const char* splitq_plan_backend(const splitq_plan* plan) { return plan == nullptr ? "" : plan->backend.c_str(); }
size_t splitq_plan_workspace_bytes(const splitq_plan* plan) {
  return plan == nullptr ? 0 : plan->plan.workspace_bytes();
}
void splitq_plan_destroy(splitq_plan* plan) { delete plan; }

splitq_status splitq_apply_rotary(const splitq_tensor* x, const splitq_tensor* out, const splitq_rotary* rotary_,
                                  const splitq_tensor* offsets) {
  return guarded([&] {
    check_pointer("rotary", rotary_);
    splitq::apply_rotary(tensor("x", x), tensor("out", out), rotary(rotary_), tensor("offsets", offsets));
  });
}

splitq_status splitq_append_kv(const splitq_append_tensors* tensors) {
  return guarded([&] { splitq::append_kv(append_tensors(tensors)); });
}

size_t splitq_backend_count(void) {
  std::size_t count = 0;
  const splitq_status status = guarded([&] { count = all_backends().size(); });
  return status == SPLITQ_OK ? count : 0;
}

splitq_status splitq_backend_at(size_t index, splitq_backend_info* info) {
  return guarded([&] {
    const auto& list = all_backends();
    if (index >= list.size()) {
      raise(splitq::StatusCode::kInvalidArgument,
            fmt::format("index: {}; must be less than {}, the number of backends", index, list.size()));
    }
    write_backend(list[index], info);
  });
}

}  // extern "C"
