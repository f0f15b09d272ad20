#include "torch_program.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "apps/shared/command.h"
#include "apps/shared/system.h"
#include "apps/shared/torch_commands.h"
#include "files/text/paths.h"
#include "values/fail.h"

namespace rotary::cli {

namespace {

// The program's path; empty where it is not there.
std::filesystem::path torch_program() {
  const std::filesystem::path self = program_path();
  const std::filesystem::path program = self.parent_path() / "rotary-torch";
  return !self.empty() && can_run(program) ? program : std::filesystem::path();
}

}  // namespace

void add_torch_commands(CLI::App& app) {
  const bool here = !torch_program().empty();
  for (const TorchCommand& command : torch_commands) {
    Command(app, std::string(command.name))
        .group(here ? std::string(command.group)
                    : "Need torch, which this build has not (scripts/build.sh --with torch)");
  }
}

bool is_torch_command(std::string_view word) {
  return std::any_of(torch_commands.begin(), torch_commands.end(),
                     [word](const TorchCommand& command) { return command.name == word; });
}

void run_torch_program(const std::vector<std::string>& words) {
  const std::filesystem::path program = torch_program();
  if (program.empty()) {
    fail(Code::TORCH, words[0],
         "this command needs torch support, the program rotary-torch in the folder of this one: build it with "
         "scripts/build.sh --with torch");
  }
  run_instead(program, words);
  fail(Code::TORCH, words[0], files::path_text(program), " must run but got: ", std::strerror(errno));
}

std::optional<std::string> ask_torch_program(const std::string& word) {
  const std::filesystem::path program = torch_program();
  return program.empty() ? std::nullopt : output_of(program, {word});
}

CommandSheet whole_sheet(const CLI::App& app) {
  CommandSheet sheet = sheet_of(app);
  const std::optional<std::string> text = ask_torch_program("--sheet");
  if (!text) return sheet;
  for (CommandSheet& of_torch : nlohmann::json::parse(*text).get<CommandSheet>().commands) {
    const auto here = std::find_if(sheet.commands.begin(), sheet.commands.end(),
                                   [&](const CommandSheet& command) { return command.name == of_torch.name; });
    if (here == sheet.commands.end()) continue;
    of_torch.group = here->group;
    *here = std::move(of_torch);
  }
  return sheet;
}

}  // namespace rotary::cli
