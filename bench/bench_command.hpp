// splitq bench: attention's speed on this machine, every contestant side by side in one run.
#pragma once

#include <CLI/CLI.hpp>

namespace splitq::bench {

/// Adds the subcommand `bench`. Running it throws splitq::Error where an argument is wrong, or where two
/// contestants disagree about a result.
void add_bench_command(CLI::App& app);

}  // namespace splitq::bench
