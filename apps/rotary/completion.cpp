// rotary completion: scripts that complete commands, options and their values in a shell.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/shared/command.h"
#include "apps/shared/sheet.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "torch_program.h"

namespace rotary::embedded {
std::string_view completion_bash() noexcept;
}

namespace rotary::cli {

namespace {

std::string command_names(const CommandSheet& program) {
  std::string names;
  for (const CommandSheet& command : program.commands) names += command.name + " ";
  return names;
}

std::string option_names(const CommandSheet& command) {
  std::string names;
  for (const OptionSheet& option : command.options)
    if (!option.names.empty()) names += (names.empty() ? "" : " ") + joined(option.names, " ");
  return names;
}

// data/completion.bash, with its words. Of each command: its options, the words that its positionals can be, and after
// "COMMAND OPTION" the words that the option's value can be; where there are none, bash offers files.
std::string bash_script(const CommandSheet& program) {
  std::string values, cases;
  for (const CommandSheet& command : program.commands) {
    std::string words;
    for (const OptionSheet& option : command.options) {
      if (!option.place.empty()) words += joined(option.words, " ");
      if (option.value.empty()) continue;
      for (const std::string& name : option.names)
        values += "    '" + command.name + " " + name + "') value='" + joined(option.words, " ") + "' ;;\n";
    }
    cases += "    " + command.name + ") options='" + option_names(command) + "' words='" + words + "' ;;\n";
  }
  std::string script(embedded::completion_bash());
  const std::string names = command_names(program);
  const std::vector<std::pair<std::string, std::string>> marks = {{"@COMMANDS@", names},
                                                                  {"@OPTIONS@", option_names(program)},
                                                                  {"@COMMANDS@", names},
                                                                  {"@VALUES@", values},
                                                                  {"@CASES@", cases}};
  for (const auto& [mark, words] : marks) script.replace(script.find(mark), mark.size(), words);
  return script;
}

// The first part of a help, up to a colon, semicolon or full stop, without the signs of a shell.
std::string short_help(const std::string& help) {
  std::size_t end = help.size();
  for (const char* mark : {": ", "; ", ". ", "\n"}) end = std::min(end, help.find(mark));
  std::string text = help.substr(0, end);
  std::erase_if(text,
                [](char letter) { return std::string_view("[]:\\'`\"$").find(letter) != std::string_view::npos; });
  return " -d '" + text + "'";
}

// Whether the value is no file or folder, so that none is offered.
bool is_other(const OptionSheet& option) {
  constexpr std::array paths = {"FILE", "CONFIG", "SPEC", "DIR", "FOLDER"};
  const std::string& word = option.place.empty() ? option.value : option.place;
  return std::find(paths.begin(), paths.end(), word) == paths.end();
}

std::string fish_option(const OptionSheet& option) {
  std::string text;
  for (const std::string& name : option.names)
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!option.words.empty()) {
    text += " -x -a '" + joined(option.words, " ") + "'";
  } else if (!option.value.empty()) {
    text += is_other(option) ? " -x" : " -r -F";
  }
  return text + short_help(option.help) + "\n";
}

std::string fish_script(const CommandSheet& program) {
  const std::string first = "complete -c rotary -n __fish_use_subcommand";
  std::string text = "complete -c rotary -f\n";
  for (const OptionSheet& option : program.options) text += first + fish_option(option);
  text += first + " -a 'help version'\n";
  text += "complete -c rotary -n '__fish_seen_subcommand_from help' -a '" + command_names(program) + "'\n";
  for (const CommandSheet& command : program.commands) {
    text += first + " -a " + command.name + short_help(command.summary) + "\n";
    const std::string mine = "complete -c rotary -n '__fish_seen_subcommand_from " + command.name + "'";
    for (const OptionSheet& option : command.options) {
      if (!option.names.empty()) text += mine + fish_option(option);
      if (option.place.empty()) continue;
      if (!option.words.empty()) {
        text += mine + " -a '" + joined(option.words, " ") + "'\n";
      } else if (!is_other(option)) {
        text += mine + " -F\n";
      }
    }
  }
  return text;
}

// zsh reads bash's script by its bashcompinit.
std::string script_of(const CLI::App& app, const std::string& shell) {
  const CommandSheet program = whole_sheet(app);
  const bool zsh = shell == "zsh";
  return (zsh ? "#compdef rotary\nautoload -U +X bashcompinit && bashcompinit\n" : "") +
         ("# Completion of rotary. Written by `rotary completion " + shell + "`.\n") +
         (shell == "fish" ? fish_script(program) : bash_script(program)) +
         (zsh ? "[ \"${funcstack[1]}\" != _rotary ] || _bash_complete -o default -F _rotary\n" : "");
}

}  // namespace

void add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  Command command(app, "completion");
  command.option("SHELL", *shell);
  auto json = std::make_shared<bool>(false);
  command.option("--json", *json);
  command.runs([&app, shell, json] {
    const std::string script = script_of(app, *shell);
    std::cout << (*json ? versioned({{"shell", *shell}, {"script", script}}) + "\n" : script);
  });
}

}  // namespace rotary::cli
