// PyTorch's attention, on the CPU or on a CUDA device: a child process that speaks JSON lines, so that it can take its turn in every round.
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "bench/contestant.hpp"
#include "peers/torch_sdpa.hpp"
#include "problem/names.hpp"

namespace splitq::bench {
namespace {

using Json = nlohmann::json;

/// A child whose standard input and output are one socket.
class Child {
 public:
  Child(const std::string& python, int threads, const std::string& device) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("socketpair failed");
    socket_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string count = std::to_string(threads);
    const char* arguments[] = {python.c_str(),   "-W",          "ignore",       "-c",
                               kTorchSdpaScript, count.c_str(), device.c_str(), nullptr};
    const int error = posix_spawnp(&pid_, python.c_str(), &actions, nullptr, const_cast<char**>(arguments), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error != 0) {
      close(socket_);
      throw std::runtime_error(python + ": " + std::strerror(error));
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    close(socket_);  // end of input: the helper returns
    waitpid(pid_, nullptr, 0);
  }

  Json ask(const Json& request) {
    const std::string line = request.dump() + "\n";
    for (std::size_t sent = 0; sent < line.size();) {
      const ssize_t n = send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) throw std::runtime_error("the PyTorch helper ended early");
      sent += std::size_t(n);
    }
    return answer();
  }

  Json answer() {
    std::size_t end;
    while ((end = received_.find('\n')) == std::string::npos) {
      char chunk[4096];
      const ssize_t n = recv(socket_, chunk, sizeof chunk, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) throw std::runtime_error("the PyTorch helper ended early");
      received_.append(chunk, std::size_t(n));
    }
    Json message = Json::parse(received_.substr(0, end));
    received_.erase(0, end + 1);
    if (message.contains("error")) throw std::runtime_error(message.at("error").get<std::string>());
    return message;
  }

 private:
  pid_t pid_ = 0;
  int socket_ = -1;
  std::string received_;
};

/// Memory that another process reaches through a path.
class SharedFile {
 public:
  explicit SharedFile(std::size_t bytes) : bytes_(bytes), fd_(memfd_create("splitq-bench", MFD_CLOEXEC)) {
    if (fd_ < 0 || ftruncate(fd_, off_t(bytes)) != 0) throw std::runtime_error("memfd_create failed");
    void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (address == MAP_FAILED) throw std::runtime_error("mmap failed");
    data_ = static_cast<std::byte*>(address);
  }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  ~SharedFile() {
    munmap(data_, bytes_);
    close(fd_);
  }
  std::byte* data() const { return data_; }
  std::string path() const { return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd_); }

 private:
  std::size_t bytes_;
  int fd_;
  std::byte* data_ = nullptr;
};

class TorchContestant final : public Contestant {
 public:
  explicit TorchContestant(const Settings& settings)
      : child_(settings.python, settings.threads, to_string(settings.device)) {
    name_ = "PyTorch " + child_.answer().at("version").get<std::string>();
    if (settings.device.kind == DeviceKind::kCuda) name_ += " flash";
  }

  double matmul_seconds(std::int64_t size) {
    return child_.ask({{"op", "matmul"}, {"size", size}}).at("seconds").get<double>();
  }

  std::string name() const override { return name_; }

  std::string refusal(const Case& c) const override {
    // Its causal mask is aligned top-left.
    return c.causal && c.seqlen_q != c.seqlen_k ? "causal with Sq != Sk means something else there" : "";
  }

  void prepare(Workload& workload) override {
    workload_ = &workload;
    const Case& c = workload.shape;
    std::size_t bytes = 0;
    Json copies = Json::array();
    const auto add = [&bytes](Json& places, const char* name, const TensorView& tensor) {
      places[name] = {{"offset", bytes},
                      {"shape", {tensor.shape[0], tensor.shape[1], tensor.shape[2], tensor.shape[3]}}};
      bytes += (std::size_t(tensor.size()) * size_of(tensor.dtype) + 63) / 64 * 64;
    };
    for (const Tensors& t : workload.copies) {
      Json places;
      add(places, "q", t.q), add(places, "k", t.k), add(places, "v", t.v), add(places, "out", t.out);
      if (c.backward)
        add(places, "dout", t.dout), add(places, "dq", t.dq), add(places, "dk", t.dk), add(places, "dv", t.dv);
      copies.push_back(places);
    }
    file_ = std::make_unique<SharedFile>(bytes);
    for (std::size_t i = 0; i < workload.copies.size(); ++i) {
      const Tensors& t = workload.copies[i];
      write(t.q, copies[i]["q"]), write(t.k, copies[i]["k"]), write(t.v, copies[i]["v"]);
      if (c.backward) write(t.dout, copies[i]["dout"]);
    }
    places_ = copies[0];
    const Json reply = child_.ask({{"op", "prepare"},
                                   {"file", file_->path()},
                                   {"bytes", bytes},
                                   {"dtype", name_of(c.dtype)},
                                   {"causal", c.causal},
                                   {"backward", c.backward},
                                   {"copies", copies}});
    extra_bytes_ = reply.at("extra_bytes").is_null() ? -1 : reply.at("extra_bytes").get<double>();
  }

  double time(int calls) override { return child_.ask({{"op", "time"}, {"calls", calls}}).at("seconds").get<double>(); }

  void fetch() override {
    child_.ask({{"op", "fetch"}});
    const Tensors& t = workload_->copies.front();
    if (workload_->shape.backward)
      read(t.dq, places_["dq"]), read(t.dk, places_["dk"]), read(t.dv, places_["dv"]);
    else
      read(t.out, places_["out"]);
  }

  void finish() override {
    child_.ask({{"op", "finish"}});
    file_.reset();
  }

  double own_extra_bytes() const override { return extra_bytes_; }

 private:
  void write(const TensorView& tensor, const Json& place) const {
    std::memcpy(file_->data() + place.at("offset").get<std::size_t>(), tensor.data,
                std::size_t(tensor.size()) * size_of(tensor.dtype));
  }
  void read(const TensorView& tensor, const Json& place) const {
    std::memcpy(tensor.data, file_->data() + place.at("offset").get<std::size_t>(),
                std::size_t(tensor.size()) * size_of(tensor.dtype));
  }

  Child child_;
  std::string name_;
  Workload* workload_ = nullptr;
  std::unique_ptr<SharedFile> file_;
  Json places_;
  double extra_bytes_ = -1;
};

/// A large bf16 product on the GPU.
class MatmulYardstick final : public Yardstick {
 public:
  explicit MatmulYardstick(TorchContestant& torch) : torch_(torch) {}
  std::string name() const override { return "matmul"; }
  double rate() override {
    constexpr std::int64_t kSize = 8192;
    return 2e-12 * double(kSize) * double(kSize) * double(kSize) / torch_.matmul_seconds(kSize);
  }

 private:
  TorchContestant& torch_;
};

}  // namespace

std::unique_ptr<Yardstick> make_matmul_yardstick(Contestant& torch) {
  return std::make_unique<MatmulYardstick>(dynamic_cast<TorchContestant&>(torch));
}

std::unique_ptr<Contestant> make_torch(const Settings& settings) { return std::make_unique<TorchContestant>(settings); }

}  // namespace splitq::bench
