// splitq: exact attention on the command line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "bench_command.hpp"
#include "commands.hpp"
#include "splitq/splitq.hpp"

namespace {

constexpr int kFailure = 2;

int run(int argc, char** argv) {
  CLI::App app("Exact attention, forward and backward", "splitq");
  app.set_version_flag("--version", std::string("splitq ") + splitq::version());
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("splitq: {}\nRun with --help for more information.\n", error.what());
  });
  splitq::cli::add_attend_command(app);
  splitq::cli::add_grad_command(app);
  splitq::cli::add_explain_command(app);
  splitq::cli::add_doctor_command(app);
  splitq::cli::add_kernels_command(app);
  splitq::cli::add_precompile_command(app);
  splitq::bench::add_bench_command(app);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw CLI::RequiredError("A command");
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();  // the answer of a command that ran
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kFailure;  // 0: help and version
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "splitq: out of memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "splitq: {}\n", error.what());
  }
  return kFailure;
}
