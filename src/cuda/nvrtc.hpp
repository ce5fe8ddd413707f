// NVIDIA's run-time compiler (libnvrtc), opened at run time: the functions that splitq calls.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "problem/status.hpp"

namespace splitq::cuda {

using NvrtcResult = int;
using NvrtcProgram = struct NvrtcProgramTag*;

// X(member, exported name, parameters)
#define SPLITQ_NVRTC_FUNCTIONS(X)                                                                                \
  X(version, "nvrtcVersion", (int* major, int* minor))                                                           \
  X(get_num_supported_archs, "nvrtcGetNumSupportedArchs", (int* count))                                          \
  X(get_supported_archs, "nvrtcGetSupportedArchs", (int* archs))                                                 \
  X(create_program, "nvrtcCreateProgram",                                                                        \
    (NvrtcProgram * program, const char* source, const char* name, int num_headers, const char* const* headers,  \
     const char* const* include_names))                                                                          \
  X(destroy_program, "nvrtcDestroyProgram", (NvrtcProgram * program))                                            \
  X(add_name_expression, "nvrtcAddNameExpression", (NvrtcProgram program, const char* expression))               \
  X(compile_program, "nvrtcCompileProgram", (NvrtcProgram program, int num_options, const char* const* options)) \
  X(get_program_log_size, "nvrtcGetProgramLogSize", (NvrtcProgram program, std::size_t * bytes))                 \
  X(get_program_log, "nvrtcGetProgramLog", (NvrtcProgram program, char* log))                                    \
  X(get_lowered_name, "nvrtcGetLoweredName", (NvrtcProgram program, const char* expression, const char** name))  \
  X(get_cubin_size, "nvrtcGetCUBINSize", (NvrtcProgram program, std::size_t * bytes))                            \
  X(get_cubin, "nvrtcGetCUBIN", (NvrtcProgram program, char* cubin))                                             \
  X(get_ptx_size, "nvrtcGetPTXSize", (NvrtcProgram program, std::size_t * bytes))                                \
  X(get_ptx, "nvrtcGetPTX", (NvrtcProgram program, char* ptx))

struct Nvrtc {
  int major = 0, minor = 0;
  std::string path;  // as opened
#define SPLITQ_DECLARE(member, name, parameters) NvrtcResult(*member) parameters = nullptr;
  SPLITQ_NVRTC_FUNCTIONS(SPLITQ_DECLARE)
#undef SPLITQ_DECLARE

  std::string name() const;                          // "NVRTC 13.0"
  std::vector<int> supported_architectures() const;  // 75, 80, ...
};

/// Opens NVRTC in the first file of the list that has it.
Status load_nvrtc(const std::vector<std::string>& paths, Nvrtc* nvrtc);

/// This process's NVRTC, opened on first use: what the environment variable SPLITQ_NVRTC names, else
/// libnvrtc.so.13 or .12, the newest that the driver (where there is one) can load kernels of.
Status nvrtc(const Nvrtc** nvrtc);

}  // namespace splitq::cuda
