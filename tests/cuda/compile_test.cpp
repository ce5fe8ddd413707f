// NVRTC: what it makes of a spec, and what is read from its log.
#include "cuda/compile.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/architecture.hpp"
#include "support.hpp"

namespace splitq::cuda {
namespace {

class Compile : public ::testing::Test {
 protected:
  void SetUp() override {
    SPLITQ_NEEDS_NVRTC();
    ASSERT_TRUE(nvrtc(&nvrtc_).ok());
    ASSERT_TRUE(read_sources(SPLITQ_TEST_KERNELS, &sources_).ok());
  }
  const Nvrtc* nvrtc_ = nullptr;
  std::vector<Source> sources_;
};

TEST_F(Compile, EveryKnownArchitectureThatNvrtcSupports) {
  const std::vector<int> supported = nvrtc_->supported_architectures();
  ASSERT_FALSE(supported.empty());
  for (const int capability : supported) {
    const std::string architecture = architecture_for(capability, supported);
    if (architecture.empty() || is_virtual(architecture)) continue;
    CompiledKernel kernel;
    const Status status = compile(*nvrtc_, sources_, test_spec(3, architecture), &kernel);
    ASSERT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(kernel.image.substr(1, 3), "ELF") << architecture;
    EXPECT_NE(kernel.lowered_name.find("scale"), std::string::npos);
    EXPECT_GT(kernel.usage.registers, 0) << kernel.log;
    EXPECT_FALSE(kernel.usage.spills()) << kernel.log;
    EXPECT_GT(kernel.seconds, 0);
  }
}

TEST_F(Compile, VirtualArchitectureGivesPtx) {
  CompiledKernel kernel;
  const Status status = compile(*nvrtc_, sources_, test_spec(3, "compute_75"), &kernel);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_NE(kernel.image.find(".target sm_75"), std::string::npos);
  EXPECT_NE(kernel.image.find(".entry " + kernel.lowered_name), std::string::npos);
}

TEST_F(Compile, SeesSpills) {
  CompiledKernel kernel;
  const Status status = compile(*nvrtc_, sources_, test_spec(3, "sm_80", true), &kernel);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_TRUE(kernel.usage.spills() || kernel.usage.stack_bytes > 0) << kernel.log;
}

TEST_F(Compile, WrongEntryNamesTheSpecAndTheCompilersWords) {
  KernelSpec spec = test_spec(1);
  spec.entry = "test::scale<test::Config{.no_such = 1}>";
  CompiledKernel kernel;
  const Status status = compile(*nvrtc_, sources_, spec, &kernel);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message.find("no_such"), std::string::npos) << status.message;
  EXPECT_NE(status.message.find("test/scale.hpp"), std::string::npos) << status.message;
}

TEST_F(Compile, WrongArchitectureAndHeader) {
  CompiledKernel kernel;
  EXPECT_NE(compile(*nvrtc_, sources_, test_spec(1, "sm_33"), &kernel).message.find("sm_33"), std::string::npos);
  KernelSpec spec = test_spec(1);
  spec.header = "test/no_such.hpp";
  EXPECT_NE(compile(*nvrtc_, sources_, spec, &kernel).message.find("no_such.hpp"), std::string::npos);
}

TEST(ParseUsage, SumsAFunctionOfItsOwnIntoTheKernel) {
  const KernelUsage usage = parse_usage(
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas info    : Function properties for k\n"
      "ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 1 barriers, 16 bytes cumulative stack size, 256 bytes smem, 368 bytes "
      "cmem[0]\n"
      "ptxas info    : Function properties for helper\n"
      "ptxas         .     0 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n");
  EXPECT_EQ(usage, (KernelUsage{168, 12, 16, 16, 256}));
}

TEST(Nvrtc, MissingSaysWhatToDo) {
  const Nvrtc* none = nullptr;
  const Status status = no_nvrtc(&none);
  EXPECT_EQ(status.code, StatusCode::kUnsupported);
  for (const char* part : {"libsplitq_no_such_compiler.so", "SPLITQ_NVRTC", "SPLITQ_PACK"}) {
    EXPECT_NE(status.message.find(part), std::string::npos) << status.message;
  }
}

TEST(Nvrtc, AnotherLibraryIsRefused) {
  Nvrtc nvrtc;
  const Status status = load_nvrtc({"libm.so.6"}, &nvrtc);
  EXPECT_EQ(status.code, StatusCode::kUnsupported);
  EXPECT_NE(status.message.find("nvrtcVersion"), std::string::npos) << status.message;
}

TEST(Architecture, NamesAndLimits) {
  std::size_t bytes = 0;
  for (const std::string& name : known_architectures()) EXPECT_TRUE(max_shared_bytes(name, &bytes).ok()) << name;
  ASSERT_TRUE(max_shared_bytes("compute_75", &bytes).ok());
  EXPECT_EQ(bytes, 65536u);
  ASSERT_TRUE(max_shared_bytes("sm_90a", &bytes).ok());
  EXPECT_EQ(bytes, 232448u);
  for (const char* wrong : {"", "sm_", "sm_81", "sm_90x", "sm_80a", "90", "sm_-75", "sm_90aa"}) {
    const Status status = max_shared_bytes(wrong, &bytes);
    EXPECT_EQ(status.code, StatusCode::kInvalidArgument) << wrong;
    EXPECT_NE(status.message.find("sm_120a"), std::string::npos) << status.message;
  }
}

TEST(Architecture, OfADevice) {
  const std::vector<int> supported{75, 80, 86, 89, 90, 100, 120};
  EXPECT_EQ(architecture_for(90, supported), "sm_90a");
  EXPECT_EQ(architecture_for(86, supported), "sm_86");
  EXPECT_EQ(architecture_for(90, {75, 80}), "compute_80");  // a compiler older than the device
  EXPECT_EQ(architecture_for(130, supported), "compute_120");
  EXPECT_EQ(architecture_for(70, supported), "");
}

TEST(EmbeddedSources, AreThoseOfTheTree) {
  std::vector<Source> sources;
  ASSERT_TRUE(read_sources(SPLITQ_KERNELS, &sources).ok());
  ASSERT_EQ(embedded_sources().size(), sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    EXPECT_EQ(embedded_sources()[i].name, sources[i].name);
    EXPECT_EQ(embedded_sources()[i].text, sources[i].text) << sources[i].name;
  }
}

TEST(Sources, AFolderThatIsNotThere) {
  std::vector<Source> sources;
  const Status status = read_sources("/no/such/folder", &sources);
  EXPECT_EQ(status.code, StatusCode::kInvalidArgument);
  EXPECT_NE(status.message.find("/no/such/folder"), std::string::npos) << status.message;
}

}  // namespace
}  // namespace splitq::cuda
