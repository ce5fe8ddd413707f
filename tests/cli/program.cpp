#include "program.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numeric>

namespace splitq::testing {
namespace {

std::string slurp(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class T>
TensorView contiguous(Values<T>& values, DType dtype) {
  TensorView view{.data = values.data.data(), .dtype = dtype, .rank = static_cast<int>(values.shape.size())};
  std::int64_t step = 1;
  for (std::size_t d = values.shape.size(); d-- > 0;) {
    view.shape[d] = values.shape[d];
    view.strides[d] = step;
    step *= std::max<std::int64_t>(values.shape[d], 1);
  }
  return view;
}

}  // namespace

Values<float> random_values(const Shape& shape, unsigned seed) {
  const auto count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  Values<float> values{shape, std::vector<float>(static_cast<std::size_t>(count))};
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::ranges::generate(values.data, [&] { return normal(engine); });
  return values;
}

TensorView view_of(Values<float>& values) { return contiguous(values, DType::kFp32); }
TensorView view_of(Values<std::int32_t>& values) { return contiguous(values, DType::kInt32); }

Program::Program() {
  std::string name = (std::filesystem::temp_directory_path() / "splitq_cli_test.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  folder_ = name;
  // The same results on every machine: without a GPU, where a test does not ask for one.
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
}

Program::~Program() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Outcome Program::run(const std::vector<std::string>& args) const {
  // What the program prints goes to files outside its folder, which tests list.
  const std::filesystem::path out = folder_.string() + ".out", err = folder_.string() + ".err";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addchdir_np(&actions, folder_.c_str());

  std::vector<std::string> words{SPLITQ_PROGRAM};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  pid_t child = 0;
  const int error = ::posix_spawn(&child, SPLITQ_PROGRAM, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error(std::string("cannot run " SPLITQ_PROGRAM ": ") + std::strerror(error));
  int status = 0;
  ::waitpid(child, &status, 0);
  Outcome outcome{WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(out), slurp(err)};
  std::filesystem::remove(out);
  std::filesystem::remove(err);
  return outcome;
}

std::vector<std::string> Program::files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

void Program::write_bytes(const std::string& name, const std::string& bytes) const {
  std::ofstream(path(name), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string Program::read_bytes(const std::string& name) const { return slurp(path(name)); }

}  // namespace splitq::testing
