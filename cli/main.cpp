// rotary: the program. Exit 0: done. 1: an error in the input, "error: CODE: sentence". 2: wrong usage.
#include <CLI/CLI.hpp>
#include <array>
#include <cctype>
#include <csignal>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"
#include "rotary/error.h"
#include "text.h"

namespace {

constexpr int input_error = 1;
constexpr int usage_error = 2;

using AddCommand = void (*)(CLI::App&);
constexpr std::array<AddCommand, 5> commands = {rotary::cli::add_inspect, rotary::cli::add_table,
                                                rotary::cli::add_apply, rotary::cli::add_demo,
                                                rotary::cli::add_targets};

// "--positions -5:5" becomes "--positions=-5:5": a word that begins like a negative number would be read as an option.
std::vector<std::string> join_negative_values(int argc, char** argv) {
  constexpr std::array<std::string_view, 8> options = {"--positions", "--length",     "--rope",    "--base",
                                                       "--first",     "--rotary-dim", "--threads", "--head-dim"};
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool negative = word.size() > 1 && word[0] == '-' && std::isdigit(static_cast<unsigned char>(word[1])) != 0;
    bool joins = false;
    for (const std::string_view option : options) joins = joins || (!words.empty() && words.back() == option);
    if (negative && joins) {
      words.back().append("=").append(word);
    } else {
      words.emplace_back(word);
    }
  }
  return words;
}

int fail(std::string_view code, std::string_view sentence) {
  std::cerr << "error: " << code << ": " << rotary::cli::printable(sentence) << '\n';
  return input_error;
}

int fail_usage(const CLI::App& app, std::string_view sentence) {
  std::string command = "rotary";
  for (const CLI::App* chosen : app.get_subcommands()) command += " " + chosen->get_name();
  std::cerr << "usage error: " << rotary::cli::printable(sentence) << "\nRun '" << command
            << " --help' for what can be said.\n";
  return usage_error;
}

int parse_and_run(CLI::App& app, std::vector<std::string> words) {
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());  // CLI11's order
    app.parse(std::move(reversed));
  } catch (const CLI::Success& request) {  // --help, --version
    app.exit(request);
  } catch (const CLI::ParseError& error) {
    return fail_usage(app, error.what());
  } catch (const rotary::cli::UsageError& error) {
    return fail_usage(app, error.what());
  } catch (const rotary::Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail("MEMORY", "the work does not fit in this machine's memory");
  } catch (const std::exception& error) {
    return fail("INTERNAL", error.what());
  }
  std::cout.flush();
  return std::cout ? 0 : fail("FILE", "standard output could not be written");
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
#ifdef SIGXFSZ
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of write(), with a sentence, like a full disk
#endif
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

  std::vector<std::string> words = join_negative_values(argc, argv);
  if (words.empty()) return fail_usage(app, "a command is needed: inspect, table, apply, demo or targets");
  const auto is_first_word = [&words](const CLI::App* command) { return command->get_name() == words[0]; };
  if (words[0][0] != '-' && app.get_subcommands(is_first_word).empty()) {
    return fail_usage(app, "there is no command '" + words[0] + "'");
  }
  return parse_and_run(app, std::move(words));
}
