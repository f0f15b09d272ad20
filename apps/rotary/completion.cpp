// rotary completion: scripts that complete commands, options and their values in a shell.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "apps/shared/command.h"
#include "apps/shared/sheet.h"
#include "commands.h"
#include "torch_program.h"

namespace rotary::cli {

namespace {

enum class Values { none, words, files, folders, other };

Values values_of(const OptionSheet& option) {
  const std::string& word = option.positional ? option.names.front() : option.value;
  if (!option.words.empty()) return Values::words;
  if (word.empty()) return Values::none;
  for (const char* file : {"FILE", "CONFIG", "SPEC"}) {
    if (word == file) return Values::files;
  }
  return word == "DIR" || word == "FOLDER" ? Values::folders : Values::other;
}

std::string joined(const std::vector<std::string>& words, const char* separator = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

std::vector<std::string> option_names(const CommandSheet& command) {
  std::vector<std::string> names;
  for (const OptionSheet& option : command.options) {
    if (!option.positional) names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

std::vector<std::string> command_names(const CommandSheet& program) {
  std::vector<std::string> names;
  for (const CommandSheet& command : program.commands) names.push_back(command.name);
  return names;
}

// The first part of a help, up to a colon, semicolon or full stop, without what a shell takes for its own signs.
std::string short_help(const std::string& help) {
  std::size_t end = help.size();
  for (const char* mark : {": ", "; ", ". ", "\n"}) end = std::min(end, help.find(mark));
  std::string text;
  for (const char letter : help.substr(0, end)) {
    if (std::string_view("[]:\\'`\"$").find(letter) == std::string_view::npos) text += letter;
  }
  return text;
}

// ---- bash ----

std::string bash_script(const CommandSheet& program) {
  const std::string commands = joined(command_names(program));
  std::string values, options;
  for (const CommandSheet& command : program.commands) {
    for (const OptionSheet& option : command.options) {
      const Values kind = values_of(option);
      if (option.positional || kind == Values::none) continue;
      for (const std::string& name : option.names) {
        values += "    '" + command.name + " " + name + "') ";
        if (kind == Values::words) {
          values += "COMPREPLY=($(compgen -W '" + joined(option.words) + "' -- \"$word\")); return ;;\n";
        } else if (kind == Values::folders) {
          values += "COMPREPLY=($(compgen -d -- \"$word\")); return ;;\n";
        } else {
          values += std::string(kind == Values::files ? "" : "compopt +o default; ") + "return ;;\n";
        }
      }
    }
    options += "    " + command.name + ") options='" + joined(option_names(command)) + "'";
    for (const OptionSheet& option : command.options) {
      if (option.positional && !option.words.empty()) options += " words='" + joined(option.words) + "'";
    }
    options += " ;;\n";
  }
  return "# bash: completion of rotary. Written by `rotary completion bash`.\n"
         "_rotary() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
         "  local options= words=\n"
         "  COMPREPLY=()\n"
         "  if [ \"$word\" = = ]; then\n"
         "    word=\n"
         "  elif [ \"$before\" = = ]; then\n"
         "    before=${COMP_WORDS[COMP_CWORD-2]}\n"
         "  fi\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    compopt +o default\n"
         "    COMPREPLY=($(compgen -W '" +
         commands + " help version " + joined(option_names(program)) +
         "' -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  case \"$command $before\" in\n"
         "    'help help') compopt +o default; COMPREPLY=($(compgen -W '" +
         commands + "' -- \"$word\")); return ;;\n" + values +
         "  esac\n"
         "  case \"$command\" in\n" +
         options +
         "  esac\n"
         "  local given\n"
         "  for given in \"${COMP_WORDS[@]:2:COMP_CWORD-2}\"; do\n"  // one of them is there: what follows are files
         "    case \" $words \" in *\" $given \"*) words= ;; esac\n"
         "  done\n"
         "  case \"$word\" in\n"
         "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
         "    *) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
         "  esac\n"
         "}\n"
         "complete -o default -F _rotary rotary\n";
}

// ---- zsh ----

std::string zsh_values(const OptionSheet& option) {
  switch (values_of(option)) {
    case Values::words:
      return "(" + joined(option.words) + ")";
    case Values::files:
      return "_files";
    case Values::folders:
      return "_files -/";
    default:
      return " ";
  }
}

std::string zsh_option(const OptionSheet& option) {
  if (option.positional)
    return "'" + std::string(option.list ? "*" : "") + ":" + option.names.front() + ":" + zsh_values(option) + "'";
  std::string text;
  for (const std::string& name : option.names) {
    text +=
        (text.empty() ? "'" : " '") + std::string(option.list ? "*" : "") + name + "[" + short_help(option.help) + "]";
    if (!option.value.empty()) text += ":" + option.value + ":" + zsh_values(option);
    text += "'";
  }
  return text;
}

std::string zsh_script(const CommandSheet& program) {
  std::string commands, cases, own;
  for (const OptionSheet& option : program.options) own += " " + zsh_option(option);
  for (const CommandSheet& command : program.commands) {
    commands += "    '" + command.name + ":" + short_help(command.summary) + "'\n";
    cases += "    " + command.name + ")\n      _arguments";
    for (const OptionSheet& option : command.options) cases += " \\\n        " + zsh_option(option);
    cases += " ;;\n";
  }
  return "#compdef rotary\n"
         "# zsh: completion of rotary. Written by `rotary completion zsh`.\n"
         "_rotary() {\n"
         "  local -a commands\n"
         "  commands=(\n" +
         commands +
         "    'help:the help of a command'\n"
         "    'version:the version'\n"
         "  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    if [[ $words[2] == -* ]]; then\n"
         "      _arguments" +
         own +
         "\n"
         "    else\n"
         "      _describe command commands\n"
         "    fi\n"
         "    return\n"
         "  fi\n"
         "  local command=$words[2]\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $command in\n" +
         cases +
         "    help) _describe command commands ;;\n"
         "  esac\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _rotary ]; then _rotary \"$@\"; else compdef _rotary rotary; fi\n";
}

// ---- fish ----

std::string fish_option(const OptionSheet& option) {
  std::string text;
  for (const std::string& name : option.names) {
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  switch (values_of(option)) {
    case Values::none:
      break;
    case Values::words:
      text += " -x -a '" + joined(option.words) + "'";
      break;
    case Values::files:
      text += " -r -F";
      break;
    case Values::folders:
      text += " -x -a '(__fish_complete_directories)'";
      break;
    case Values::other:
      text += " -x";
      break;
  }
  return text + " -d '" + short_help(option.help) + "'";
}

std::string fish_script(const CommandSheet& program) {
  std::string text =
      "# fish: completion of rotary. Written by `rotary completion fish`.\n"
      "complete -c rotary -f\n";
  const std::string first = "complete -c rotary -n __fish_use_subcommand";
  for (const OptionSheet& option : program.options) text += first + fish_option(option) + "\n";
  for (const CommandSheet& command : program.commands)
    text += first + " -a " + command.name + " -d '" + short_help(command.summary) + "'\n";
  text += first + " -a help -d 'the help of a command'\n" + first + " -a version -d 'the version'\n";
  text += "complete -c rotary -n '__fish_seen_subcommand_from help' -a '" + joined(command_names(program)) + "'\n";
  for (const CommandSheet& command : program.commands) {
    const std::string mine = "complete -c rotary -n '__fish_seen_subcommand_from " + command.name + "'";
    for (const OptionSheet& option : command.options) {
      if (!option.positional) {
        text += mine + fish_option(option) + "\n";
      } else if (values_of(option) == Values::words) {
        text += mine + " -a '" + joined(option.words) + "'\n";
      } else if (values_of(option) != Values::other) {
        text += mine + " -F\n";
      }
    }
  }
  return text;
}

void run(const CLI::App& app, const std::string& shell) {
  const CommandSheet program = whole_sheet(app);
  std::cout << (shell == "bash" ? bash_script(program) : shell == "zsh" ? zsh_script(program) : fish_script(program));
}

}  // namespace

void add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  Command command(app, "completion", "Print a script that completes rotary's words in a shell");
  command.option("SHELL", *shell, "whose script").one_of({"bash", "zsh", "fish"}).required();
  command.group("For the shell");
  command.footer(
      "`cmake --install` puts these scripts, and the man page, where the shells look for them. By hand:\n"
      "  rotary completion bash >> ~/.bash_completion\n"
      "  rotary completion zsh > ~/.zfunc/_rotary           # a folder of $fpath\n"
      "  rotary completion fish > ~/.config/fish/completions/rotary.fish");
  command.runs([&app, shell] { run(app, *shell); });
}

}  // namespace rotary::cli
