// A shared library that may be missing: found by name at run time, so that one build serves every machine.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "problem/status.hpp"

namespace splitq::cuda {

/// Stays open until the process ends: the CUDA libraries do not take being closed.
class SharedLibrary {
 public:
  static Status open(const std::string& path, SharedLibrary* library) {
    library->handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    return library->handle_ ? Status{} : Status::unsupported(dlerror());
  }

  template <class Function>
  Status find(const char* name, Function** function) const {
    *function = reinterpret_cast<Function*>(dlsym(handle_, name));
    return *function ? Status{} : Status::unsupported(fmt::format("it lacks the function {}", name));
  }

 private:
  void* handle_ = nullptr;
};

}  // namespace splitq::cuda
