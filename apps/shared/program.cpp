#include "program.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <span>

#include "rotary/error.h"
#include "sheet.h"
#include "text.h"
#include "usage_error.h"

namespace rotary::cli {

namespace {

std::string error_json(const std::string& code, std::string_view sentence) {
  const nlohmann::ordered_json error = {{"code", code}, {"message", std::string(sentence)}};
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;  // of bytes that are not UTF-8
  return with_version(nlohmann::ordered_json({{"error", error}}).dump(-1, ' ', false, replace)) + "\n";
}

// What an option is called now, by its command and the name that it had.
constexpr std::array<std::array<std::string_view, 3>, 4> old_names = {{{"extend", "--method", "--scaling"},
                                                                       {"extend", "--write", "--output"},
                                                                       {"extend", "--context", "--length"},
                                                                       {"perplexity", "--lengths", "--length"}}};

std::vector<std::string> in_new_names(std::vector<std::string> words, bool json) {
  for (auto word = words.begin(); word != words.end() && *word != "--"; ++word) {
    for (const auto& [command, old, now] : old_names) {
      const std::string name = word->substr(0, word->find('='));
      if (words.front() != command || name != old) continue;
      word->replace(0, name.size(), now);
      if (!json) std::cerr << "note: " << name << " is called " << now << " now\n";
    }
  }
  return words;
}

std::string last_command;

}  // namespace

std::string command_text() { return last_command; }

std::vector<std::string> command_words(int argc, char** argv) {
  constexpr std::array<std::string_view, 9> options = {"--positions",  "--length",     "--rope",
                                                       "--base",       "--rope-theta", "--first",
                                                       "--rotary-dim", "--threads",    "--head-dim"};
  std::vector<std::string> words;
  last_command = "rotary";
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    last_command += " " + in_shell(word);
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

bool wants_json(const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), "--json") != words.end();
}

int print_error(Code code, std::string_view sentence, bool json) {
  const std::string word(name(code));
  // A single write, so that processes that share a terminal, as under mpirun, do not mix their lines.
  std::cerr << "error: " + word + ": " + printable(sentence) + "\n" + (json ? error_json(word, sentence) : "");
  return 1;
}

int print_usage_error(std::string_view sentence, const std::string& full_name, bool json) {
  const std::string help = "Run '" + full_name + " --help' for what can be said.\n";
  std::cerr << "usage error: " + printable(sentence) + "\n" + (json ? error_json("USAGE", sentence) : help);
  return 2;
}

void set_help(CLI::App& app) {
  app.set_help_flag("-h", "print the short help");
  app.set_help_all_flag("--help", "print this help");
  app.formatter_fn([](const CLI::App* command, const std::string& full_name, CLI::AppFormatMode mode) {
    constexpr std::size_t screen = 80;
    return mode == CLI::AppFormatMode::All
               ? help_text(sheet_of(*command), full_name, help_width())
               : short_help_text(sheet_of(*command), full_name, std::min(screen, help_width()));
  });
}

int run_program(CLI::App& app, const std::vector<std::string>& given) {
#ifdef SIGXFSZ
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of write(), with a sentence, like a full disk
#endif
  if (given.empty()) {
    std::cerr << app.help() << '\n';
    return print_usage_error("a command is needed", app.get_name(), false);
  }
  const bool json = wants_json(given);
  const std::vector<std::string> words = in_new_names(given, json);
  const bool names_command = !words.empty() && words[0][0] != '-';
  const std::string command = names_command ? words[0] : "";
  const std::string full_name = app.get_name() + (names_command ? " " + command : "");
  const auto trouble = [&command](Code code, std::string_view sentence, bool as_json) {
    const int status = print_error(code, sentence, as_json);
    return command == "check" ? 2 : status;  // its 1 says that a tensor differs
  };
  try {
    const CommandSheet program = sheet_of(app);
    const auto named = [&command](const CommandSheet& sheet) { return sheet.name == command; };
    const auto chosen = std::find_if(program.commands.begin(), program.commands.end(), named);
    if (names_command && chosen == program.commands.end())
      return print_usage_error(no_command(program, command), program.name, json);
    check_options(names_command ? *chosen : program, std::span(words).subspan(names_command ? 1 : 0));
    app.require_subcommand(0, 1);  // a value may be a command's name: rotary inspect table
    std::vector<std::string> reversed(words.rbegin(), words.rend());  // CLI11's order
    app.parse(std::move(reversed));
  } catch (const CLI::Success& request) {  // --help, --version
    app.exit(request);
  } catch (const CLI::ParseError& error) {
    return print_usage_error(sentence_of(error, app), full_name, json);
  } catch (const UsageError& error) {
    return print_usage_error(error.what(), full_name, json);
  } catch (const Failed& failed) {
    std::cout.flush();
    return std::cout ? failed.status : trouble(Code::FILE, "standard output could not be written", false);
  } catch (const Stopped& stopped) {
    std::cout.flush();
    return stopped.status;
  } catch (const rotary::Error& error) {
    return trouble(error.code(), error.what(), json);
  } catch (const std::bad_alloc&) {
    return trouble(Code::MEMORY, "the work does not fit in this machine's memory", json);
  } catch (const std::exception& error) {
    const bool torch_has_no_memory =
        std::string_view(error.what()).find("DefaultCPUAllocator") != std::string_view::npos;
    if (torch_has_no_memory) return trouble(Code::MEMORY, "the work does not fit in this machine's memory", json);
    return trouble(Code::INTERNAL, error.what(), json);
  }
  std::cout.flush();
  return std::cout ? 0 : trouble(Code::FILE, "standard output could not be written", false);
}

}  // namespace rotary::cli
