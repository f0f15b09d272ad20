// The commands of the rotary program. Each add_ function registers one: its options, its help, what it runs.
#pragma once

#include <string>

namespace rotary::cli {

struct Program;

// The program. Returns the exit status. 0: done. 1: an error in the input, "error: CODE: sentence". 2: wrong usage.
int run_command_line(int argc, char** argv);

void add_accuracy(Program& program);
void add_check(Program& program);
void add_diagnose(Program& program);
void add_golden(Program& program);
void add_inspect(Program& program);
void add_table(Program& program);
void add_apply(Program& program);
void add_shift(Program& program);
void add_compare(Program& program);
void add_convert(Program& program);
void add_plot(Program& program);
void add_demo(Program& program);
void add_explain(Program& program);
void add_extend(Program& program);
void add_models(Program& program);
void add_positions(Program& program);
void add_targets(Program& program);
void add_bench(Program& program);
void add_completion(Program& program);
void add_man(Program& program);

// What --version prints: "rotary X.Y.Z", then a line per part: instruction sets, gpu, torch, compiler. Asks
// rotary-torch where it is there.
std::string version_text();

}  // namespace rotary::cli
