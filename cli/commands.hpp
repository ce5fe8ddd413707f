// The commands of the program. Each adds itself, with its flags and what is done when it is called.
#pragma once

#include <CLI/App.hpp>

namespace splitq::cli {

void add_attend_command(CLI::App& app);
void add_grad_command(CLI::App& app);
void add_explain_command(CLI::App& app);
void add_doctor_command(CLI::App& app);
void add_kernels_command(CLI::App& app);
void add_precompile_command(CLI::App& app);

}  // namespace splitq::cli
