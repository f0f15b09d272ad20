#include "torch_program.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/shared/command.h"
#include "apps/shared/torch_commands.h"
#include "rotary/error.h"

namespace rotary::cli {

namespace {

// The program's path, and whether it is there.
std::pair<std::string, bool> torch_program() {
  std::error_code unreadable;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  const std::string program = (self.parent_path() / "rotary-torch").string();
  return {program, !unreadable && ::access(program.c_str(), X_OK) == 0};
}

std::string in_shell_quotes(const std::string& path) {
  std::string text = "'";
  for (const char letter : path) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

}  // namespace

void add_torch_commands(CLI::App& app) {
  const char* group = torch_program().second
                          ? "Commands for models, with torch"
                          : "Commands that need torch, which this build has not (scripts/build.sh --with torch)";
  for (const TorchCommand& command : torch_commands) {
    Command(app, std::string(command.name), std::string(command.help)).group(group);
  }
}

bool is_torch_command(std::string_view word) {
  return std::any_of(torch_commands.begin(), torch_commands.end(),
                     [word](const TorchCommand& command) { return command.name == word; });
}

void run_torch_program(const std::vector<std::string>& words) {
  const auto [program, there] = torch_program();
  if (!there) {
    throw Error(Code::TORCH, "[" + words[0] +
                                 "] this command needs torch support, the program rotary-torch in the folder of this " +
                                 "one: build it with scripts/build.sh --with torch");
  }
  ::setenv("OMP_WAIT_POLICY", "PASSIVE",
           0);  // waiting threads sleep instead of spinning, which would slow down a busy machine
  std::vector<char*> arguments{const_cast<char*>(program.c_str())};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execv(program.c_str(), arguments.data());
  throw Error(Code::TORCH, "[" + words[0] + "] " + program + " must run but got: " + std::strerror(errno));
}

std::optional<std::string> ask_torch_program(const std::string& word) {
  const auto [program, there] = torch_program();
  if (!there) return std::nullopt;
  FILE* pipe = popen((in_shell_quotes(program) + " " + word + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  char buffer[4096];
  for (std::size_t got = 0; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, got);
  return pclose(pipe) == 0 ? std::optional(text) : std::nullopt;
}

CommandSheet whole_sheet(const CLI::App& app) {
  CommandSheet sheet = sheet_of(app);
  const std::optional<std::string> text = ask_torch_program("--sheet");
  if (!text) return sheet;
  for (CommandSheet& of_torch : sheet_from(nlohmann::ordered_json::parse(*text)).commands) {
    const auto here = std::find_if(sheet.commands.begin(), sheet.commands.end(),
                                   [&](const CommandSheet& command) { return command.name == of_torch.name; });
    if (here == sheet.commands.end()) continue;
    of_torch.group = here->group;
    *here = std::move(of_torch);
  }
  return sheet;
}

}  // namespace rotary::cli
