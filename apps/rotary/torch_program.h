// The commands that need libtorch are in a second program, rotary-torch, in the same folder, so that the others do not
// wait until libtorch is loaded.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/shared/sheet.h"

namespace rotary::cli {

void add_torch_commands(CLI::App& app);  // names and help only, for --help
bool is_torch_command(std::string_view word);

// Replaces this process by rotary-torch with the same words. Throws TORCH if it is not installed.
[[noreturn]] void run_torch_program(const std::vector<std::string>& words);

// What rotary-torch says when run with this word; nothing if it is not installed or fails.
std::optional<std::string> ask_torch_program(const std::string& word);

// The program's commands with all options of the torch commands too, where rotary-torch is installed.
CommandSheet whole_sheet(const CLI::App& app);

}  // namespace rotary::cli
