#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "apps/shared/program.h"
#include "apps/shared/sheet.h"
#include "apps/shared/system.h"
#include "commands.h"

namespace rotary::cli {

namespace {

using AddCommand = void (*)(CLI::App&);
// As the help lists them.
const std::vector<std::pair<const char*, std::vector<AddCommand>>> commands = {
    {"See a model", {add_inspect, add_table, add_explain, add_models}},
    {"Is it right", {add_check, add_diagnose, add_accuracy, add_golden}},
    {"Make something", {add_apply, add_convert, add_extend, add_positions}},
    {"For work on rotary itself", {add_bench, add_demo}}};

// "help", "help COMMAND" and "version" are "--help", "COMMAND --help" and "--version".
void read_as_options(std::vector<std::string>& words) {
  const bool help = words[0] == "help";
  if (help && words.size() > 1) {
    words = {words[1], "--help"};
  } else if (help) {
    words[0] = "--help";
  } else if (words[0] == "version") {
    words[0] = "--version";
  }
}

void print_all_help(const CLI::App& app) {
  const CommandSheet program = sheet_of(app);
  const std::size_t width = help_width();
  std::cout << help_text(program, program.name, width);
  for (const CommandSheet& command : program.commands) {
    const std::string full_name = program.name + " " + command.name;
    std::cout << "\n---- " << full_name << " ----\n" << help_text(command, full_name, width);
  }
}

}  // namespace

int run_command_line(int argc, char** argv) {
  prepare_streams();
  std::ios::sync_with_stdio(false);
  CLI::App app(
      "rotary: rotary position embeddings, once and right.\n"
      "From a model's config.json and its q and k tensors to the rotated tensors, exactly.");
  app.name("rotary");
  set_help(app);
  app.set_version_flag(
      "-V,--version", [] { return version_text(); }, "print the version and what this build can do");
  bool all_help = false;
  app.add_flag("--help-all", all_help, "print the help of every command");
  app.footer(
      "Begin with:\n"
      "  rotary inspect config.json       what a model's rope is, pair by pair\n"
      "  rotary check config.json --input qk.safetensors --against rotated.safetensors\n"
      "  rotary extend config.json --length 131072\n"
      "\n"
      "rotary COMMAND -h shows the usual options of a command, rotary COMMAND --help or rotary help COMMAND all.\n"
      "\n"
      "Exit status: 0 done; 1 an error in the input, 'error: CODE: sentence'; 2 wrong usage.");
  for (const auto& [title, adders] : commands) {
    for (const AddCommand add : adders) {
      add(app);
      app.get_subcommands({}).back()->group(title);
    }
  }

  std::vector<std::string> words = command_words(argc, argv);
  if (!words.empty()) read_as_options(words);
  const auto print_if_asked = [&] {
    if (all_help) print_all_help(app);
  };
  app.callback(print_if_asked);
  return run_program(app, words);
}

}  // namespace rotary::cli
