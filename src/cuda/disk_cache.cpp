#include "cuda/disk_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "cuda/digest.hpp"

namespace splitq::cuda {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOwnerAlone = 0700;
constexpr mode_t kOthersWrite = 0022;

std::string errno_text() { return std::generic_category().message(errno); }

/// A file that is closed again, whatever happens. -1: not open.
class File {
 public:
  File(const fs::path& path, int flags) : number_(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600)) {}
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

/// Code that another user could have written is not run.
bool is_ours(const struct stat& status) { return status.st_uid == ::geteuid() && (status.st_mode & kOthersWrite) == 0; }

bool read_all(int file, std::string* bytes) {
  struct stat status {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || !is_ours(status)) return false;
  bytes->resize(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes->size()) {
    const ssize_t n = ::read(file, bytes->data() + done, bytes->size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

/// The folder and its parents, each new one for this user alone. "" or what is wrong.
std::string make_folder(const fs::path& folder) {
  fs::path made;
  for (const fs::path& part : folder) {
    made /= part;
    if (::mkdir(made.c_str(), kOwnerAlone) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES) {
      return errno_text();
    }
  }
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return errno_text();
  if (!S_ISDIR(status.st_mode)) return "it is not a folder";
  if (!is_ours(status)) return "it belongs to another user, or others may write to it";
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return errno_text();
  return "";
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

fs::path default_cache_folder() {
  if (const std::string named = variable("SPLITQ_CACHE_DIR"); !named.empty()) return fs::absolute(named);
  // XDG Base Directory Specification: a relative path is to be ignored.
  if (const fs::path base = variable("XDG_CACHE_HOME"); base.is_absolute()) return base / "splitq";
  if (const fs::path home = variable("HOME"); home.is_absolute()) return home / ".cache" / "splitq";
  return {};
}

DiskCache::DiskCache(fs::path folder) : folder_(std::move(folder)) {
  if (folder_.empty()) return;
  if (const std::string wrong = make_folder(folder_); !wrong.empty()) {
    warn(wrong);
    folder_.clear();
  }
}

void DiskCache::warn(const std::string& reason) {
  std::call_once(warned_, [&] {
    fmt::print(stderr, "splitq: the kernel cache '{}' cannot be used: {}; kernels are compiled in every process\n",
               folder_.string(), reason);
  });
}

fs::path DiskCache::file(const std::string& key) const { return folder_ / (digest(key) + ".kernel"); }

std::optional<CompiledKernel> DiskCache::load(const std::string& key) const {
  if (!usable()) return std::nullopt;
  const File file(this->file(key), O_RDONLY);
  std::string bytes;
  if (!file || !read_all(file.number(), &bytes)) return std::nullopt;
  std::string_view rest = bytes;
  std::optional<ArchiveEntry> entry = take_entry(&rest);
  if (!entry || !rest.empty() || entry->key != key) return std::nullopt;
  return std::move(entry->kernel);
}

DiskCache::Lock DiskCache::lock(const std::string& key) {
  if (!usable()) return {};
  // Lock files stay: to remove one would race with who waits for it. The first two digits keep them few.
  File file(folder_ / (digest(key).substr(0, 2) + ".lock"), O_RDWR | O_CREAT);
  int result = file ? ::flock(file.number(), LOCK_EX) : -1;
  while (file && result != 0 && errno == EINTR) result = ::flock(file.number(), LOCK_EX);
  if (result == 0) return Lock(file.release());
  warn(errno_text());
  return {};
}

DiskCache::Lock::~Lock() {
  if (file_ >= 0) ::close(file_);
}

void DiskCache::store(const Lock& lock, const std::string& key, const CompiledKernel& kernel) {
  if (!lock) return;
  // Who holds the lock is alone with this name: it may be what a killed process left behind.
  const fs::path target = this->file(key), temporary = target.string() + ".new";
  const std::string bytes = serialize({key, kernel});
  bool written = false;
  {
    const File file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    written = file && write_all(file.number(), bytes);
  }
  if (written && ::rename(temporary.c_str(), target.c_str()) == 0) return;
  const std::string reason = errno_text();
  ::unlink(temporary.c_str());
  warn(reason);
}

}  // namespace splitq::cuda
