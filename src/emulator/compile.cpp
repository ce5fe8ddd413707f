#include "emulator/compile.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "cuda/digest.hpp"
#include "device/matrix.hpp"
#include "device/thread.hpp"
#include "emulator/program.hpp"

namespace splitq::emulator {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFunction = "splitq_kernel";
constexpr std::array<const char*, 3> kCompilers{"c++", "g++", "clang++"};
// -O1: a variant takes seconds to compile, and hardly longer to run than with more.
constexpr std::array<const char*, 5> kOptions{"-std=c++20", "-O1", "-fPIC", "-shared", "-w"};

// What a compiled kernel calls must be in the program, though nothing else in it calls these.
[[gnu::used]] void (*const kInstructions)() = [] { device::bar_sync(); };
[[gnu::used]] void (*const kMatrices)(device::u32 (&)[4], device::u32) = device::ldmatrix_x4;

std::string errno_text(int error) { return std::generic_category().message(error); }

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::vector<std::string> split(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

/// A folder that goes again, whatever happens.
class Workplace {
 public:
  explicit Workplace(fs::path folder) : folder_(std::move(folder)) {}
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
  ~Workplace() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
};

Status write_file(const fs::path& path, const std::string& text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? Status{}
              : Status{StatusCode::kInternal,
                       fmt::format("emulator: '{}' cannot be written: {}", path.string(), errno_text(errno))};
}

/// The shared library that this code is in; "" where it is in the program itself. A kernel that is linked with the library
/// finds its instructions there however the library was opened.
std::string own_library() {
  Dl_info own{};
  if (::dladdr(reinterpret_cast<const void*>(&own_library), &own) == 0) return "";
  std::error_code error;
  const fs::path file = fs::canonical(own.dli_fname, error);
  return error || file == fs::canonical("/proc/self/exe", error) ? "" : file.string();
}

/// Loads an object from memory. It stays: the name, and with it the file, must not become another object's.
Status load(const std::string& object, KernelFunction* kernel) {
  const int file = ::memfd_create("splitq-kernel", MFD_CLOEXEC);
  std::size_t done = 0;
  while (file >= 0 && done < object.size()) {
    const ssize_t n = ::write(file, object.data() + done, object.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  if (file < 0 || done < object.size()) {
    const std::string reason = errno_text(errno);
    if (file >= 0) ::close(file);
    return {StatusCode::kOutOfMemory, fmt::format("emulator: no memory for a compiled kernel: {}", reason)};
  }
  void* library = ::dlopen(fmt::format("/proc/self/fd/{}", file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string reason = ::dlerror();
    ::close(file);
    return Status::unsupported(
        fmt::format("emulator: a compiled kernel cannot be loaded ({}); a program that holds the static library must "
                    "export its symbols to it (-rdynamic, in CMake ENABLE_EXPORTS)",
                    reason));
  }
  *kernel = reinterpret_cast<KernelFunction>(::dlsym(library, kFunction));
  return *kernel ? Status{} : Status{StatusCode::kInternal, "emulator: a compiled kernel lacks its function"};
}

}  // namespace

HostCompilerSettings HostCompilerSettings::from_environment() {
  return {.cache_folder = cuda::default_cache_folder(),
          .source_folder = variable("SPLITQ_KERNEL_SOURCE_DIR"),
          .compiler = variable("CXX")};
}

HostCompiler::HostCompiler(HostCompilerSettings settings)
    : settings_(std::move(settings)), cache_(settings_.cache_folder) {
  if (settings_.source_folder.empty()) {
    sources_ = cuda::embedded_sources();
  } else {
    sources_status_ = cuda::read_sources(settings_.source_folder, &sources_);
  }
}

Status HostCompiler::find_compiler(std::string* version) {
  std::call_once(searched_, [&] {
    std::vector<std::vector<std::string>> candidates{split(settings_.compiler)};
    if (candidates[0].empty()) {
      candidates.clear();
      for (const char* name : kCompilers) candidates.push_back({name});
    }
    std::string reason;
    for (std::vector<std::string>& candidate : candidates) {
      std::vector<std::string> words = candidate;
      words.emplace_back("--version");
      const Outcome outcome = run_program(words);
      if (outcome.ok()) {
        command_ = std::move(candidate);
        version_ = fmt::format("{}: {}", fmt::join(command_, " "), outcome.output.substr(0, outcome.output.find('\n')));
        return;
      }
      reason +=
          fmt::format("{}{}: {}", reason.empty() ? "" : ", ", fmt::join(candidate, " "),
                      outcome.error != 0 ? errno_text(outcome.error) : fmt::format("exit status {}", outcome.status));
    }
    found_ = Status::unsupported(fmt::format(
        "emulator: no C++ compiler ({}); install g++ or clang, or name one in the environment variable CXX", reason));
  });
  if (found_.ok()) *version = version_;
  return found_;
}

Status HostCompiler::get(const std::string& header, const std::string& entry, const std::string& params_type,
                         KernelFunction* kernel) {
  const std::string unit = fmt::format(
      "#include \"{}\"\nextern \"C\" void {}(const void* params) {{ {}(*static_cast<const {}*>(params)); }}\n", header,
      kFunction, entry, params_type);
  std::shared_ptr<Slot> slot;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Slot>& found = slots_[unit];
    if (!found) found = std::make_shared<Slot>();
    slot = found;
  }
  const std::lock_guard lock(slot->mutex);
  if (slot->kernel == nullptr) SPLITQ_TRY(find_or_compile(unit, &slot->kernel));
  *kernel = slot->kernel;
  return {};
}

Status HostCompiler::find_or_compile(const std::string& unit, KernelFunction* kernel) {
  SPLITQ_TRY(sources_status_);
  std::string version;
  SPLITQ_TRY(find_compiler(&version));
  const std::string key =
      fmt::format("emulator\nsources {}\noptions {}\nlibrary {}\ncompiler {}\n{}", cuda::digest_of(sources_),
                  fmt::join(kOptions, " "), own_library(), version, unit);
  if (const auto stored = cache_.load(key)) return load(stored->image, kernel);
  const cuda::DiskCache::Lock lock = cache_.lock(key);
  if (const auto stored = cache_.load(key)) return load(stored->image, kernel);  // who held the lock has compiled it

  // Who holds the lock is alone with this name; without a cache it is a name of one's own.
  std::string folder = (cache_.folder() / (cuda::digest(key) + ".build")).string();
  if (!lock) {
    folder = (fs::temp_directory_path() / "splitq.XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) {
      return {StatusCode::kInternal,
              fmt::format("emulator: no folder to compile in, '{}': {}", folder, errno_text(errno))};
    }
  }
  const Workplace workplace(folder);
  std::string object;
  SPLITQ_TRY(compile(unit, workplace.folder(), &object));
  SPLITQ_TRY(load(object, kernel));
  cache_.store(lock, key, {.lowered_name = kFunction, .image = object, .compiler = version});
  return {};
}

Status HostCompiler::compile(const std::string& unit, const fs::path& folder, std::string* object) const {
  for (const cuda::Source& source : sources_) SPLITQ_TRY(write_file(folder / source.name, source.text));
  const fs::path unit_file = folder / "kernel.cpp", object_file = folder / "kernel.so";
  SPLITQ_TRY(write_file(unit_file, unit));
  std::vector<std::string> words = command_;
  words.insert(words.end(), kOptions.begin(), kOptions.end());
  words.insert(words.end(), {"-I", folder.string(), "-o", object_file.string(), unit_file.string()});
  if (const std::string library = own_library(); !library.empty()) words.push_back(library);
  const Outcome outcome = run_program(words);
  if (!outcome.ok()) {
    return {StatusCode::kInternal,
            fmt::format("emulator: the kernel does not compile with {}:\n{}{}", fmt::join(command_, " "), unit,
                        outcome.error != 0 ? errno_text(outcome.error) : outcome.output)};
  }
  std::ifstream file(object_file, std::ios::binary);
  object->assign(std::istreambuf_iterator<char>(file), {});
  if (file && !object->empty()) return {};
  return {StatusCode::kInternal, fmt::format("emulator: '{}' cannot be read", object_file.string())};
}

HostCompiler& host_compiler() {
  static HostCompiler compiler(HostCompilerSettings::from_environment());
  return compiler;
}

}  // namespace splitq::emulator
