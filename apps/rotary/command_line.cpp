#include <iostream>
#include <string>
#include <vector>

#include "apps/shared/program.h"
#include "apps/shared/sheet.h"
#include "apps/shared/system.h"
#include "commands.h"
#include "rotary/error.h"
#include "torch_program.h"

namespace rotary::cli {

namespace {

using AddCommand = void (*)(Program&);
// As the help lists them.
const std::vector<std::pair<const char*, std::vector<AddCommand>>> commands = {
    {"See a model", {add_inspect, add_table, add_plot, add_explain, add_models}},
    {"Is it right", {add_check, add_diagnose, add_accuracy, add_golden}},
    {"Make something", {add_apply, add_shift, add_convert, add_extend, add_positions}},
    {"For work on rotary itself", {add_bench, add_targets, add_compare, add_demo, add_completion, add_man}}};

// "help", "help COMMAND" and "version" are "--help", "COMMAND --help" and "--version".
void read_as_options(std::vector<std::string>& words) {
  const bool help = words[0] == "help" || words[0] == "--help" || words[0] == "-h";
  if (help && words.size() > 1 && !words[1].starts_with('-')) {
    words = {words[1], words[0] == "-h" ? "-h" : "--help"};
  } else if (words[0] == "help" || words[0] == "version") {
    words[0] = "--" + words[0];
  }
}

void print_all_help(const Program& program) {
  const CommandSheet sheet = whole_sheet(program);
  const std::size_t width = help_width();
  std::cout << help_text(sheet, sheet.name, width);
  for (const CommandSheet& command : sheet.commands) {
    const std::string full_name = sheet.name + " " + command.name;
    std::cout << "\n---- " << full_name << " ----\n" << help_text(command, full_name, width);
  }
}

void add_all(Program& program, bool& all_help) {
  const auto print_version = [] {
    std::cout << version_text() << std::endl;
    throw Failed{0};
  };
  add_flag(program.own, {"-V", "--version"}, "print the version and what this build can do", print_version);
  add_flag(program.own, {"--help-all"}, "print the help of every command", [&all_help] { all_help = true; });
  for (const auto& [title, adders] : commands) {
    for (const AddCommand add : adders) {
      add(program);
      program.commands.back().group = title;
    }
  }
  add_torch_commands(program);
  program.own.run = [&program, &all_help] {
    if (all_help) print_all_help(program);
  };
}

}  // namespace

int run_command_line(int argc, char** argv) {
  prepare_streams();
  std::ios::sync_with_stdio(false);
  Program program(
      "rotary: rotary position embeddings, once and right.\n"
      "From a model's config.json and its q and k tensors to the rotated tensors, exactly.",
      "Begin with:\n"
      "  rotary inspect config.json       what a model's rope is, pair by pair\n"
      "  rotary check config.json --input qk.safetensors --against rotated.safetensors\n"
      "  rotary extend config.json --length 131072\n"
      "\n"
      "rotary COMMAND -h shows the usual options of a command, rotary COMMAND --help or rotary help COMMAND all.\n"
      "\n"
      "Exit status: 0 done; 1 an error in the input, 'error: CODE: sentence'; 2 wrong usage.");
  bool all_help = false;
  add_all(program, all_help);

  std::vector<std::string> words = command_words(argc, argv);
  if (words.empty()) {
    std::cerr << short_help_text(sheet_of(program), program.own.name, short_help_width()) << '\n';
    return print_usage_error("a command is needed", "", false);
  }
  read_as_options(words);
  if (is_torch_command(words[0])) {
    try {
      run_torch_program(words);
    } catch (const Error& error) {
      return print_error(error.code(), error.what(), wants_json(words));
    }
  }
  return run_program(program, words);
}

}  // namespace rotary::cli
