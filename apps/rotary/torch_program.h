// The commands that need libtorch live in a second program, rotary-torch, beside this one: the others start at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace rotary::cli {

void add_torch_commands(CLI::App& app);  // for the list that --help prints
bool is_torch_command(std::string_view word);

// Becomes rotary-torch with the same words. Throws TORCH where it was not built.
[[noreturn]] void run_torch_program(const std::vector<std::string>& words);

}  // namespace rotary::cli
