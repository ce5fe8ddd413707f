// Kernels compiled for the emulator: found again, never trusted when damaged, and what is said where they cannot be had.
#include "emulator/compile.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "emulator/emulator.hpp"

namespace splitq::emulator {
namespace {

namespace fs = std::filesystem;

/// Doubles the numbers of an array.
constexpr const char* kHeader = R"(#pragma once
#include "device/memory.hpp"
#include "device/thread.hpp"
namespace test {
struct Params {
  float* data;
};
template <int kFactor>
void scale(Params p) {
  float* at = p.data + splitq::device::thread_index();
  splitq::device::st_global(at, kFactor * splitq::device::ld_global(at));
}
}  // namespace test
)";

struct Params {
  float* data;
};

class Compile : public ::testing::Test {
 protected:
  Compile() {
    std::string name = (fs::temp_directory_path() / "splitq_compile.XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    write(folder_ / "kernels" / "test" / "scale.hpp", kHeader);
    for (const cuda::Source& source : cuda::embedded_sources()) {
      if (source.name.starts_with("device/")) write(folder_ / "kernels" / source.name, source.text);
    }
  }
  ~Compile() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  HostCompilerSettings settings() const {
    HostCompilerSettings settings = HostCompilerSettings::from_environment();
    settings.cache_folder = folder_ / "cache", settings.source_folder = folder_ / "kernels";
    return settings;
  }

  static Status get(HostCompiler& compiler, KernelFunction* kernel, const std::string& entry = "test::scale<2>") {
    return compiler.get("test/scale.hpp", entry, "test::Params", kernel);
  }

  static void expect_doubles(KernelFunction kernel) {
    std::vector<float> data(32, 1.5f);
    const Params params{data.data()};
    const Report report = run({.threads = 32, .memory = {writable("data", data.data(), data.size() * sizeof(float))}},
                              [&] { kernel(&params); });
    EXPECT_TRUE(report.clean()) << report.to_string();
    EXPECT_EQ(data, std::vector<float>(32, 3.0f));
  }

  std::vector<fs::path> entries() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(folder_ / "cache")) {
      if (entry.path().extension() == ".kernel") out.push_back(entry.path());
    }
    return out;
  }

  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
};

TEST_F(Compile, OnceAndThenFromDisk) {
  KernelFunction kernel = nullptr, again = nullptr;
  HostCompiler first(settings());
  const Status status = get(first, &kernel);
  ASSERT_TRUE(status.ok()) << status.message;
  expect_doubles(kernel);
  ASSERT_TRUE(get(first, &again).ok());
  EXPECT_EQ(kernel, again);
  ASSERT_EQ(entries().size(), 1u);
  const auto written = fs::last_write_time(entries()[0]);
  EXPECT_EQ(fs::status(folder_ / "cache").permissions(), fs::perms::owner_all);

  HostCompiler second(settings());
  ASSERT_TRUE(get(second, &again).ok());
  expect_doubles(again);
  EXPECT_EQ(fs::last_write_time(entries()[0]), written);
  for (const auto& left : fs::directory_iterator(folder_ / "cache")) {
    EXPECT_TRUE(left.path().extension() == ".kernel" || left.path().extension() == ".lock") << left.path();
  }
}

TEST_F(Compile, OtherSourcesAreAnotherKernel) {
  KernelFunction kernel = nullptr;
  HostCompiler first(settings());
  ASSERT_TRUE(get(first, &kernel).ok());
  write(folder_ / "kernels" / "test" / "scale.hpp", std::string(kHeader) + "// changed\n");
  HostCompiler second(settings());
  ASSERT_TRUE(get(second, &kernel).ok());
  EXPECT_EQ(entries().size(), 2u);
}

TEST_F(Compile, ADamagedEntryIsCompiledAgain) {
  KernelFunction kernel = nullptr;
  HostCompiler first(settings());
  ASSERT_TRUE(get(first, &kernel).ok());
  const fs::path file = entries().at(0);
  const std::string whole = read(file);
  std::string damaged = whole;
  damaged[damaged.size() / 2] ^= 1;
  for (const std::string& bytes : {damaged, whole.substr(0, whole.size() / 2), std::string()}) {
    write(file, bytes);
    HostCompiler second(settings());
    const Status status = get(second, &kernel);
    ASSERT_TRUE(status.ok()) << status.message;
    expect_doubles(kernel);
    EXPECT_EQ(read(file).size(), whole.size());
  }
}

TEST_F(Compile, WithoutACache) {
  HostCompilerSettings without = settings();
  without.cache_folder.clear();
  HostCompiler compiler(without);
  KernelFunction kernel = nullptr;
  const Status status = get(compiler, &kernel);
  ASSERT_TRUE(status.ok()) << status.message;
  expect_doubles(kernel);
}

TEST_F(Compile, NoCompiler) {
  HostCompilerSettings without = settings();
  without.compiler = "splitq-no-such-compiler --fast";
  HostCompiler compiler(without);
  KernelFunction kernel = nullptr;
  const Status status = get(compiler, &kernel);
  EXPECT_EQ(status.code, StatusCode::kUnsupported);
  EXPECT_EQ(status.message,
            "emulator: no C++ compiler (splitq-no-such-compiler --fast: No such file or directory); install g++ or "
            "clang, or name one in the environment variable CXX");
  without.compiler = "false";
  HostCompiler failing(without);
  EXPECT_NE(get(failing, &kernel).message.find("false: exit status 1"), std::string::npos);
}

TEST_F(Compile, WordsOfTheCompilerAreNoShell) {
  HostCompilerSettings odd = settings();
  odd.compiler = "c++;touch" + (folder_ / "touched").string();
  HostCompiler compiler(odd);
  KernelFunction kernel = nullptr;
  EXPECT_FALSE(get(compiler, &kernel).ok());
  EXPECT_FALSE(fs::exists(folder_ / "touched"));
}

TEST_F(Compile, WhatDoesNotCompileSaysWhy) {
  HostCompiler compiler(settings());
  KernelFunction kernel = nullptr;
  const Status status = get(compiler, &kernel, "test::no_such_kernel<2>");
  EXPECT_EQ(status.code, StatusCode::kInternal);
  EXPECT_NE(status.message.find("no_such_kernel"), std::string::npos) << status.message;
  EXPECT_TRUE(entries().empty());
  EXPECT_TRUE(get(compiler, &kernel).ok());  // still usable
}

}  // namespace
}  // namespace splitq::emulator
