// The commands of the rotary program. Each add_ function registers one: its options, its help, what it runs.
#pragma once

#include <string>

namespace rotary::cli {

class Command;

// The program. Returns the exit status. 0: done. 1: an error in the input, "error: CODE: sentence". 2: wrong usage. The
// statuses of check are 1: a tensor differs, 2: an error, 3: undecided.
int run_command_line(int argc, char** argv);

void add_accuracy(Command& command);
void add_check(Command& command);
void add_diagnose(Command& command);  // the old name of check --details
void add_golden(Command& command);
void add_inspect(Command& command);
void add_table(Command& command);
void add_apply(Command& command);
void add_convert(Command& command);
void add_demo(Command& command);
void add_explain(Command& command);
void add_explore(Command& command);
void add_extend(Command& command);
void add_models(Command& command);
void add_positions(Command& command);
void add_bench(Command& command);

// The text of --version: "rotary X.Y.Z", then a line per part: instruction sets, gpu, compiler, the sheet of models.
std::string version_text();

}  // namespace rotary::cli
