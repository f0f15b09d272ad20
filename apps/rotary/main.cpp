// rotary: the program. Exit 0: done. 1: an error in the input, "error: CODE: sentence". 2: wrong usage.
#include <CLI/CLI.hpp>
#include <array>
#include <iostream>
#include <string>
#include <vector>

#include "apps/shared/program.h"
#include "commands.h"
#include "rotary/error.h"
#include "rotary/version.h"
#include "torch_program.h"

namespace {

using AddCommand = void (*)(CLI::App&);
constexpr std::array<AddCommand, 11> commands = {
    rotary::cli::add_inspect,  rotary::cli::add_table,   rotary::cli::add_apply, rotary::cli::add_check,
    rotary::cli::add_diagnose, rotary::cli::add_compare, rotary::cli::add_demo,  rotary::cli::add_explain,
    rotary::cli::add_models,   rotary::cli::add_targets, rotary::cli::add_bench};

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  CLI::App app(
      "rotary: rotary position embeddings, once and right.\n"
      "From a model's config.json and its q and k tensors to the rotated tensors, exactly.");
  app.name("rotary");
  app.set_version_flag("--version", std::string("rotary ") + ROTARY_VERSION);
  app.footer(
      "Begin with:\n"
      "  rotary demo                      the whole chain on bundled data, checked and timed\n"
      "  rotary inspect config.json       what a model's rope is, pair by pair\n"
      "  rotary apply config.json --input qk.safetensors --output rotated.safetensors\n"
      "Exit status: 0 done; 1 an error in the input, 'error: CODE: sentence'; 2 wrong usage.");
  app.require_subcommand(1);
  for (const AddCommand add : commands) add(app);
  rotary::cli::add_torch_commands(app);

  const std::vector<std::string> words = rotary::cli::command_words(argc, argv);
  if (words.empty()) {
    return rotary::cli::fail_usage(app, "a command is needed: inspect, table, apply, demo, explain, train, ...");
  }
  if (rotary::cli::is_torch_command(words[0])) {
    try {
      rotary::cli::run_torch_program(words);
    } catch (const rotary::Error& error) {
      return rotary::cli::fail(error.code(), error.what());
    }
  }
  return rotary::cli::run_program(app, words);
}
