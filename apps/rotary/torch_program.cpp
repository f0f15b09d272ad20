#include "torch_program.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "apps/shared/command.h"
#include "rotary/error.h"

namespace rotary::cli {

namespace {

struct TorchCommand {
  std::string_view name, help;
};
constexpr std::array<TorchCommand, 5> commands = {{
    {"train", "Train a small decoder on a text"},
    {"generate", "Continue a text, or token ids, with a decoder"},
    {"forward", "Hidden states and logits of a checkpoint"},
    {"perplexity", "The loss past the trained length, by scaling"},
    {"summary", "A model's layers, output shapes and parameter counts"},
}};

}  // namespace

void add_torch_commands(CLI::App& app) {
  for (const TorchCommand& command : commands) {
    Command(app, std::string(command.name), std::string(command.help))
        .group("Commands that need torch support (scripts/build.sh --with torch)");
  }
}

bool is_torch_command(std::string_view word) {
  for (const TorchCommand& command : commands) {
    if (command.name == word) return true;
  }
  return false;
}

void run_torch_program(const std::vector<std::string>& words) {
  std::error_code unreadable;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  const std::string program = (self.parent_path() / "rotary-torch").string();
  if (unreadable || ::access(program.c_str(), X_OK) != 0) {
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

}  // namespace rotary::cli
