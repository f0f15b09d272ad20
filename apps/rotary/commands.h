// The commands of the rotary program. Each add_ function registers one: its options, its help, what it runs.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace rotary::cli {

// The program. Returns the exit status. 0: done. 1: an error in the input, "error: CODE: sentence". 2: wrong usage. Of
// check, 1: a tensor differs. 2: an error. 3: undecided.
int run_command_line(int argc, char** argv);

void add_accuracy(CLI::App& app);
void add_check(CLI::App& app);
void add_diagnose(CLI::App& app);
void add_golden(CLI::App& app);
void add_inspect(CLI::App& app);
void add_table(CLI::App& app);
void add_apply(CLI::App& app);
void add_convert(CLI::App& app);
void add_demo(CLI::App& app);
void add_explain(CLI::App& app);
void add_extend(CLI::App& app);
void add_models(CLI::App& app);
void add_positions(CLI::App& app);
void add_bench(CLI::App& app);

// The text of --version: "rotary X.Y.Z", then a line per part: instruction sets, gpu, compiler.
std::string version_text();

}  // namespace rotary::cli
