// The cache of compiled kernels: who compiles, who waits, and what is never trusted.
#include "cuda/kernel_cache.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "cuda/new_file.hpp"
#include "cuda/pack.hpp"
#include "support.hpp"

namespace splitq::cuda {
namespace {

namespace fs = std::filesystem;

/// What get() gave, from where.
struct Got {
  Status status;
  std::shared_ptr<const CompiledKernel> kernel;
  Origin origin = Origin::kMemory;
};

Got get(KernelCache& cache, const KernelSpec& spec) {
  Got got;
  got.status = cache.get(spec, &got.kernel, &got.origin);
  return got;
}

std::vector<fs::path> entries(const fs::path& folder, const std::string& extension = ".kernel") {
  std::vector<fs::path> out;
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().extension() == extension) out.push_back(file.path());
  }
  return out;
}

class Cache : public ::testing::Test {
 protected:
  void SetUp() override { SPLITQ_NEEDS_NVRTC(); }

  /// In a process of its own, which ends with what the body returns.
  template <class Body>
  static pid_t in_child(Body body) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(body());
    return child;
  }

  static int exit_status(pid_t child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  /// A fresh cache over the folder finds the kernel in `expected`, and the kernel is whole.
  void expect_from(Origin expected, const KernelSpec& spec = test_spec(2)) {
    KernelCache cache(test_settings(folder_.path()));
    const Got got = get(cache, spec);
    ASSERT_TRUE(got.status.ok()) << got.status.message;
    EXPECT_STREQ(to_string(got.origin), to_string(expected));
    EXPECT_EQ(got.kernel->image.substr(1, 3), "ELF");
  }

  Folder folder_;
};

TEST_F(Cache, MemoryThenDisk) {
  KernelCache cache(test_settings(folder_.path()));
  const Got first = get(cache, test_spec(2));
  ASSERT_TRUE(first.status.ok()) << first.status.message;
  EXPECT_EQ(first.origin, Origin::kCompiler);
  const Got second = get(cache, test_spec(2));
  EXPECT_EQ(second.origin, Origin::kMemory);
  EXPECT_EQ(second.kernel, first.kernel);

  KernelCache other(test_settings(folder_.path()));
  const Got third = get(other, test_spec(2));
  EXPECT_EQ(third.origin, Origin::kDisk);
  EXPECT_EQ(*third.kernel, *first.kernel);
}

TEST_F(Cache, FolderAndFilesAreTheUsersAlone) {
  const fs::path nested = folder_ / "a" / "b";
  KernelCache cache(test_settings(nested));
  ASSERT_TRUE(get(cache, test_spec(2)).status.ok());
  struct stat status {};
  ASSERT_EQ(::stat(nested.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  ASSERT_EQ(entries(nested).size(), 1u);
  ASSERT_EQ(::stat(entries(nested)[0].c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0077, 0u);
}

TEST_F(Cache, EntryArchitectureAndSourcesAreTheKey) {
  expect_from(Origin::kCompiler, test_spec(2));
  expect_from(Origin::kCompiler, test_spec(3));
  expect_from(Origin::kCompiler, test_spec(2, "sm_86"));
  expect_from(Origin::kDisk, test_spec(2));

  Folder sources;
  fs::create_directories(sources / "test");
  write_file(sources / "test" / "scale.hpp",
             read_file(fs::path(SPLITQ_TEST_KERNELS) / "test/scale.hpp") + "// changed\n");
  CacheSettings settings = test_settings(folder_.path());
  settings.source_folder = sources.path();
  KernelCache cache(settings);
  EXPECT_EQ(get(cache, test_spec(2)).origin, Origin::kCompiler);
}

TEST_F(Cache, EveryFlippedByteIsSeen) {
  expect_from(Origin::kCompiler);
  const fs::path file = entries(folder_.path()).at(0);
  const std::string good = read_file(file);
  for (const std::size_t at : {std::size_t{0}, std::size_t{20}, std::size_t{50}, good.size() / 2, good.size() - 1}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    write_file(file, bad);
    expect_from(Origin::kCompiler);
    EXPECT_EQ(read_file(file).size(), good.size());  // and it is mended
    expect_from(Origin::kDisk);
  }
}

TEST_F(Cache, CutOrLongerOrForeignEntriesAreCompiledAnew) {
  expect_from(Origin::kCompiler, test_spec(2));
  const fs::path file = entries(folder_.path()).at(0);
  const std::string good = read_file(file);
  for (const std::string& bad : {good.substr(0, 10), good.substr(0, good.size() - 1), good + "x", std::string()}) {
    write_file(file, bad);
    expect_from(Origin::kCompiler);
  }
  expect_from(Origin::kCompiler, test_spec(3));
  for (const fs::path& other : entries(folder_.path())) {
    if (other != file) fs::copy_file(other, file, fs::copy_options::overwrite_existing);
  }
  expect_from(Origin::kCompiler, test_spec(2));  // undamaged, but the kernel of another spec
}

TEST_F(Cache, AnEntryThatOthersMayWriteIsNotTrusted) {
  expect_from(Origin::kCompiler);
  ASSERT_EQ(::chmod(entries(folder_.path()).at(0).c_str(), 0666), 0);
  expect_from(Origin::kCompiler);
}

TEST_F(Cache, ALinkIsNotFollowed) {
  expect_from(Origin::kCompiler);
  const fs::path file = entries(folder_.path()).at(0), aside = folder_ / "aside";
  fs::rename(file, aside);
  fs::create_symlink(aside, file);
  expect_from(Origin::kCompiler);
}

TEST_F(Cache, AFolderThatOthersMayWriteIsNotUsed) {
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0777), 0);
  expect_from(Origin::kCompiler);
  EXPECT_TRUE(entries(folder_.path()).empty());
}

TEST_F(Cache, FolderThatCannotBeMadeIsSaidOnce) {
  write_file(folder_ / "file", "");
  ::testing::internal::CaptureStderr();
  KernelCache cache(test_settings(folder_ / "file" / "cache"));
  for (int factor = 2; factor < 4; ++factor) {
    const Got got = get(cache, test_spec(factor));
    EXPECT_TRUE(got.status.ok()) << got.status.message;
    EXPECT_EQ(got.origin, Origin::kCompiler);
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  EXPECT_NE(said.find("file/cache"), std::string::npos) << said;
}

TEST_F(Cache, FullDiskIsSaidOnceAndLeavesNothingBehind) {
  ::testing::internal::CaptureStderr();
  const int status = exit_status(in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1000, 1000};  // a write ends in the middle, as it does on a full disk
    if (::setrlimit(RLIMIT_FSIZE, &small) != 0) return 3;
    KernelCache cache(test_settings(folder_.path()));
    for (int factor = 2; factor < 4; ++factor) {
      if (const Got got = get(cache, test_spec(factor)); !got.status.ok() || got.origin != Origin::kCompiler) return 4;
    }
    return 0;
  }));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  EXPECT_TRUE(entries(folder_.path()).empty());
  EXPECT_TRUE(entries(folder_.path(), ".new").empty());
  expect_from(Origin::kCompiler);
  expect_from(Origin::kDisk);
}

TEST_F(Cache, ProcessesStartedTogetherCompileOnce) {
  constexpr int kProcesses = 4, kCompiled = 10, kFound = 11;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(in_child([&] {
      KernelCache cache(test_settings(folder_.path()));
      const Got got = get(cache, test_spec(2));
      return !got.status.ok() ? 1 : got.origin == Origin::kCompiler ? kCompiled : kFound;
    }));
  }
  int compiled = 0;
  for (const pid_t child : children) {
    const int status = exit_status(child);
    EXPECT_TRUE(status == kCompiled || status == kFound) << status;
    compiled += status == kCompiled;
  }
  EXPECT_EQ(compiled, 1);
}

TEST_F(Cache, KilledWhileItCompilesOrWrites) {
  expect_from(Origin::kCompiler,
              test_spec(9));  // how long a compilation takes depends on the machine: kill at many times
  for (int i = 0; i < 12; ++i) {
    const pid_t child = in_child([&] {
      KernelCache cache(test_settings(folder_.path()));
      return get(cache, test_spec(100 + i)).status.ok() ? 0 : 1;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(10 + 20 * i));
    ::kill(child, SIGKILL);
    exit_status(child);
  }
  for (int i = 0; i < 12; i += 3) {
    KernelCache cache(test_settings(folder_.path()));
    const Got got = get(cache, test_spec(100 + i));
    ASSERT_TRUE(got.status.ok()) << got.status.message;
    expect_from(Origin::kDisk, test_spec(100 + i));
  }
}

TEST_F(Cache, WhatAKilledWriterLeftIsNoHindrance) {
  expect_from(Origin::kCompiler);
  const fs::path file = entries(folder_.path()).at(0);
  fs::rename(file, file.string() + ".new");
  fs::resize_file(file.string() + ".new", 100);
  expect_from(Origin::kCompiler);
  expect_from(Origin::kDisk);
  EXPECT_TRUE(entries(folder_.path(), ".new").empty());
}

TEST_F(Cache, AFailureIsNotKept) {
  Folder sources;
  fs::create_directories(sources / "test");
  write_file(sources / "test" / "scale.hpp", "#error not yet\n");
  CacheSettings settings = test_settings(folder_.path());
  settings.source_folder = sources.path();
  KernelCache cache(settings);
  const Got got = get(cache, test_spec(2));
  EXPECT_FALSE(got.status.ok());
  EXPECT_NE(got.status.message.find("not yet"), std::string::npos) << got.status.message;
  EXPECT_TRUE(entries(folder_.path()).empty());
}

TEST_F(Cache, DumpHoldsSourceLogPtxAndCubin) {
  Folder dump;
  CacheSettings settings = test_settings({});
  settings.dump_folder = dump.path();
  KernelCache cache(settings);
  const Got got = get(cache, test_spec(2));
  ASSERT_TRUE(got.status.ok()) << got.status.message;
  ASSERT_EQ(entries(dump.path(), ".cubin").size(), 1u);
  EXPECT_EQ(read_file(entries(dump.path(), ".cubin")[0]), got.kernel->image);
  EXPECT_EQ(read_file(entries(dump.path(), ".log").at(0)), got.kernel->log);
  EXPECT_NE(read_file(entries(dump.path(), ".ptx").at(0)).find(got.kernel->lowered_name), std::string::npos);
  EXPECT_NE(read_file(entries(dump.path(), ".cu").at(0)).find("test/scale.hpp"), std::string::npos);
  EXPECT_TRUE(fs::exists(dump / "kernels" / "test" / "scale.hpp"));
}

class Pack : public Cache {
 protected:
  /// A pack of these kernels, as precompile writes it.
  void make_pack(const fs::path& path, const std::vector<KernelSpec>& specs) {
    KernelCache cache(test_settings({}));
    std::vector<ArchiveEntry> all;
    for (const KernelSpec& spec : specs) {
      const Got got = get(cache, spec);
      ASSERT_TRUE(got.status.ok()) << got.status.message;
      std::string key;
      ASSERT_TRUE(cache.key_of(spec, &key).ok());
      all.push_back({key, *got.kernel});
    }
    write_file(path, cuda::make_pack(all));
  }
};

TEST_F(Pack, ServesAMachineWithoutNvrtc) {
  make_pack(folder_ / "pack", {test_spec(2), test_spec(3, "sm_90a")});
  CacheSettings settings = test_settings({});
  settings.pack = folder_ / "pack";
  KernelCache cache(settings, no_nvrtc);
  for (const KernelSpec& spec : {test_spec(2), test_spec(3, "sm_90a")}) {
    const Got got = get(cache, spec);
    ASSERT_TRUE(got.status.ok()) << got.status.message;
    EXPECT_EQ(got.origin, Origin::kPack);
    EXPECT_EQ(got.kernel->image.substr(1, 3), "ELF");
  }
  const Got missing = get(cache, test_spec(4));
  EXPECT_EQ(missing.status.code, StatusCode::kUnsupported);
  for (const std::string& part : {test_spec(4).entry, settings.pack, std::string("NVRTC: not found")}) {
    EXPECT_NE(missing.status.message.find(part), std::string::npos) << missing.status.message;
  }
}

TEST_F(Pack, OfOtherSourcesIsNotUsed) {
  make_pack(folder_ / "pack", {test_spec(2)});
  CacheSettings settings{.pack = folder_ / "pack"};  // the library's own kernels
  KernelCache cache(settings, no_nvrtc);
  EXPECT_FALSE(get(cache, test_spec(2)).status.ok());
}

TEST_F(Pack, DamagedIsSaidAndCompiledInstead) {
  make_pack(folder_ / "pack", {test_spec(2)});
  std::string bytes = read_file(folder_ / "pack");
  bytes[bytes.size() / 2] ^= 1;
  write_file(folder_ / "pack", bytes);
  CacheSettings settings = test_settings({});
  settings.pack = folder_ / "pack";
  ::testing::internal::CaptureStderr();
  KernelCache cache(settings), without(settings, no_nvrtc);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("damaged"), std::string::npos);
  EXPECT_EQ(get(cache, test_spec(2)).origin, Origin::kCompiler);
  EXPECT_NE(get(without, test_spec(2)).status.message.find("damaged"), std::string::npos);
}

TEST_F(Pack, ThatIsNotThere) {
  std::map<std::string, CompiledKernel> kernels;
  const Status status = read_pack(folder_ / "pack", &kernels);
  EXPECT_EQ(status.code, StatusCode::kInvalidArgument);
  EXPECT_NE(status.message.find("pack"), std::string::npos);
}

TEST(NewFile, AppearsWholeOrNotAtAll) {
  Folder folder;
  {
    NewFile file;
    ASSERT_TRUE(file.open(folder / "kept").ok());
    EXPECT_FALSE(fs::exists(folder / "kept"));
    ASSERT_TRUE(file.publish("text").ok());
    NewFile dropped;
    ASSERT_TRUE(dropped.open(folder / "dropped").ok());
  }
  EXPECT_EQ(read_file(folder / "kept"), "text");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
  for (const fs::path& wrong : {folder / "no" / "such" / "file", folder.path()}) {
    NewFile file;
    const Status status = file.open(wrong);
    EXPECT_EQ(status.code, StatusCode::kInvalidArgument);
    EXPECT_NE(status.message.find(wrong), std::string::npos) << status.message;
  }
}

class ThreadsCache : public Cache {};

TEST_F(ThreadsCache, CompileAVariantOnce) {
  KernelCache cache(test_settings(folder_.path()));
  std::atomic<int> compiled{0}, failed{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const Got got = get(cache, test_spec(2 + i % 2));
      failed += !got.status.ok();
      compiled += got.origin == Origin::kCompiler;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(compiled, 2);
}

TEST(DefaultCacheFolder, FollowsTheEnvironment) {
  const auto with = [](const char* own, const char* xdg, const char* home) {
    ::setenv("SPLITQ_CACHE_DIR", own, 1);
    ::setenv("XDG_CACHE_HOME", xdg, 1);
    ::setenv("HOME", home, 1);
    return default_cache_folder();
  };
  EXPECT_EQ(with("/own", "/xdg", "/home/u"), "/own");
  EXPECT_EQ(with("", "/xdg", "/home/u"), "/xdg/splitq");
  EXPECT_EQ(with("", "relative", "/home/u"), "/home/u/.cache/splitq");
  EXPECT_EQ(with("", "", "/home/u"), "/home/u/.cache/splitq");
  EXPECT_EQ(with("", "", ""), "");
}

}  // namespace
}  // namespace splitq::cuda
