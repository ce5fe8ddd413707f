// The CUDA driver API (libcuda.so.1), opened at run time: the functions that splitq calls, declared here as the driver
// exports them, so that neither the build nor a machine without a GPU needs anything of CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "problem/status.hpp"

namespace splitq::cuda {

using Result = int;  // CUresult
using DevicePointer = std::uint64_t;
using DeviceId = int;  // CUdevice
using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Stream = struct StreamTag*;  // CUstream and cudaStream_t; nullptr: the legacy default stream
using Event = struct EventTag*;
using Graph = struct GraphTag*;
using GraphExec = struct GraphExecTag*;

/// CUdevice_attribute and CUfunction_attribute: those that are asked for.
enum class DeviceAttribute : int {
  kMultiprocessorCount = 16,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMaxSharedMemoryPerBlockOptin = 97,
  kMemoryPoolsSupported = 115,
};
enum class FunctionAttribute : int { kMaxDynamicSharedSizeBytes = 8 };
enum class PointerAttribute : int { kMemoryType = 2, kDeviceOrdinal = 9 };

// X(member, exported name, parameters)
#define SPLITQ_DRIVER_FUNCTIONS(X)                                                                                     \
  X(init, "cuInit", (unsigned flags))                                                                                  \
  X(driver_get_version, "cuDriverGetVersion", (int* version))                                                          \
  X(get_error_string, "cuGetErrorString", (Result result, const char** text))                                          \
  X(device_get_count, "cuDeviceGetCount", (int* count))                                                                \
  X(device_get, "cuDeviceGet", (DeviceId * device, int index))                                                         \
  X(device_get_name, "cuDeviceGetName", (char* name, int size, DeviceId device))                                       \
  X(device_get_attribute, "cuDeviceGetAttribute", (int* value, DeviceAttribute attribute, DeviceId device))            \
  X(device_total_mem, "cuDeviceTotalMem_v2", (std::size_t * bytes, DeviceId device))                                   \
  X(device_primary_ctx_retain, "cuDevicePrimaryCtxRetain", (Context * context, DeviceId device))                       \
  X(ctx_get_current, "cuCtxGetCurrent", (Context * context))                                                           \
  X(ctx_push_current, "cuCtxPushCurrent_v2", (Context context))                                                        \
  X(ctx_pop_current, "cuCtxPopCurrent_v2", (Context * context))                                                        \
  X(module_load_data, "cuModuleLoadData", (Module * module, const void* image))                                        \
  X(module_get_function, "cuModuleGetFunction", (Function * function, Module module, const char* name))                \
  X(func_set_attribute, "cuFuncSetAttribute", (Function function, FunctionAttribute attribute, int value))             \
  X(launch_kernel, "cuLaunchKernel",                                                                                   \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,         \
     unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters, void** extra))                         \
  X(mem_alloc_async, "cuMemAllocAsync", (DevicePointer * pointer, std::size_t bytes, Stream stream))                   \
  X(mem_free_async, "cuMemFreeAsync", (DevicePointer pointer, Stream stream))                                          \
  X(mem_alloc, "cuMemAlloc_v2", (DevicePointer * pointer, std::size_t bytes))                                          \
  X(mem_free, "cuMemFree_v2", (DevicePointer pointer))                                                                 \
  X(mem_get_info, "cuMemGetInfo_v2", (std::size_t * free, std::size_t * total))                                        \
  X(memcpy_htod_async, "cuMemcpyHtoDAsync_v2", (DevicePointer to, const void* from, std::size_t bytes, Stream stream)) \
  X(memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2", (void* to, DevicePointer from, std::size_t bytes, Stream stream))       \
  X(memset_d8_async, "cuMemsetD8Async", (DevicePointer to, unsigned char value, std::size_t bytes, Stream stream))     \
  X(pointer_get_attribute, "cuPointerGetAttribute", (void* value, PointerAttribute attribute, DevicePointer pointer))  \
  X(stream_create, "cuStreamCreate", (Stream * stream, unsigned flags))                                                \
  X(stream_destroy, "cuStreamDestroy_v2", (Stream stream))                                                             \
  X(stream_synchronize, "cuStreamSynchronize", (Stream stream))                                                        \
  X(stream_begin_capture, "cuStreamBeginCapture_v2", (Stream stream, int mode))                                        \
  X(stream_end_capture, "cuStreamEndCapture", (Stream stream, Graph * graph))                                          \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", (GraphExec * exec, Graph graph, unsigned long long flags))       \
  X(graph_launch, "cuGraphLaunch", (GraphExec exec, Stream stream))                                                    \
  X(graph_exec_destroy, "cuGraphExecDestroy", (GraphExec exec))                                                        \
  X(graph_destroy, "cuGraphDestroy", (Graph graph))                                                                    \
  X(event_create, "cuEventCreate", (Event * event, unsigned flags))                                                    \
  X(event_record, "cuEventRecord", (Event event, Stream stream))                                                       \
  X(event_synchronize, "cuEventSynchronize", (Event event))                                                            \
  X(event_elapsed_time, "cuEventElapsedTime", (float* milliseconds, Event begin, Event end))                           \
  X(event_destroy, "cuEventDestroy_v2", (Event event))

/// As cuDriverGetVersion counts: 1000 * major + 10 * minor. 11.4 brought the last function above.
inline constexpr int kMinDriverVersion = 11040;

struct Driver {
  int version = 0;
#define SPLITQ_DECLARE(member, name, parameters) Result(*member) parameters = nullptr;
  SPLITQ_DRIVER_FUNCTIONS(SPLITQ_DECLARE)
#undef SPLITQ_DECLARE
};

/// Opens and initialises the driver in the file named.
Status load_driver(const std::string& path, Driver* driver);

/// This process's driver: libcuda.so.1, opened on first use. The answer, good or bad, stays.
Status driver(const Driver** driver);

/// ok, or a message that names the call and what the driver says of the result.
Status check(const Driver& driver, Result result, const char* call);

std::string version_string(int version);  // 13000 -> "13.0"

}  // namespace splitq::cuda
