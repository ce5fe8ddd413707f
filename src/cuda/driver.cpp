#include "cuda/driver.hpp"

#include <fmt/format.h>

#include "cuda/shared_library.hpp"

namespace splitq::cuda {
namespace {

constexpr const char* kDriverLibrary = "libcuda.so.1";

// CUresult, where the kind of error matters to the caller.
enum : Result {
  kSuccess = 0,
  kOutOfMemory = 2,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kNoBinaryForGpu = 209,
  kInvalidPtx = 218,
  kUnsupportedPtxVersion = 222,
};

StatusCode code_of(Result result) {
  switch (result) {
    case kSuccess:
      return StatusCode::kOk;
    case kOutOfMemory:
      return StatusCode::kOutOfMemory;
    case kInvalidDevice:
      return StatusCode::kInvalidArgument;
    case kInvalidImage:
    case kNoBinaryForGpu:
    case kInvalidPtx:
    case kUnsupportedPtxVersion:
      return StatusCode::kUnsupported;
    default:
      return StatusCode::kInternal;
  }
}

struct Loaded {
  Driver driver;
  Status status;
};

}  // namespace

std::string version_string(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

Status check(const Driver& driver, Result result, const char* call) {
  if (result == kSuccess) return {};
  const char* text = nullptr;
  if (driver.get_error_string(result, &text) != kSuccess || text == nullptr) text = "unknown error";
  return {code_of(result), fmt::format("CUDA: {}: {} (error {})", call, text, result)};
}

Status load_driver(const std::string& path, Driver* driver) {
  SharedLibrary library;
  if (const Status opened = SharedLibrary::open(path, &library); !opened.ok()) {
    return Status::unsupported(fmt::format("CUDA driver: not found ({}); install NVIDIA's driver", opened.message));
  }
  const auto find_version = library.find("cuDriverGetVersion", &driver->driver_get_version);
  if (find_version.ok() && driver->driver_get_version(&driver->version) == kSuccess &&
      driver->version < kMinDriverVersion) {
    return Status::unsupported(fmt::format("CUDA driver: version {}; at least {} is needed",
                                           version_string(driver->version), version_string(kMinDriverVersion)));
  }
#define SPLITQ_FIND(member, name, parameters)                                            \
  if (const Status found = library.find(name, &driver->member); !found.ok()) {           \
    return Status::unsupported(fmt::format("CUDA driver: {}: {}", path, found.message)); \
  }
  SPLITQ_DRIVER_FUNCTIONS(SPLITQ_FIND)
#undef SPLITQ_FIND
  if (const Status ready = check(*driver, driver->init(0), "cuInit"); !ready.ok()) {
    return Status::unsupported(ready.message);
  }
  return {};
}

Status driver(const Driver** driver) {
  static const Loaded loaded = [] {
    Loaded out;
    out.status = load_driver(kDriverLibrary, &out.driver);
    return out;
  }();
  *driver = loaded.status.ok() ? &loaded.driver : nullptr;
  return loaded.status;
}

}  // namespace splitq::cuda
