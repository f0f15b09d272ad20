#include "program.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>

#include "rotary/error.h"
#include "system.h"
#include "text.h"

namespace rotary::cli {

namespace {

using Words = std::vector<std::string>;

std::string error_json(const std::string& code, const std::string& sentence) {
  const nlohmann::ordered_json error = {{"code", code}, {"message", sentence}};
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;  // of bytes that are not UTF-8
  return with_version(nlohmann::ordered_json({{"error", error}}).dump(-1, ' ', false, replace)) + "\n";
}

// A single write, so that processes that share a terminal, as under mpirun, do not mix their lines.
void print_error(const std::string& line, const std::string& more) { std::cerr << printable(line) + "\n" + more; }

// About the words that CLI11 found no place for.
std::string sentence_of_extras(const Words& extras, const CommandDescription& described) {
  const auto is_option = [](const std::string& word) { return word.size() > 1 && word[0] == '-'; };
  const auto unknown = std::ranges::find_if(extras, is_option);
  if (unknown != extras.end()) return no_option(described, *unknown);
  Words places;
  for (const OptionDescription& option : described.options)
    if (!option.place.empty()) places.push_back(option.place);
  const std::string got = " but got '" + extras.front() + "'";
  if (places.empty()) return described.name + " takes options only" + got;
  return described.name + " takes one " + one_of_words(places) + got + " too";
}

std::string help_of(const CommandDescription& described, const std::string& full_name, CLI::AppFormatMode mode) {
  constexpr std::size_t screen = 80;
  return mode == CLI::AppFormatMode::All ? help_text(described, full_name, help_width())
                                         : short_help_text(described, full_name, std::min(screen, help_width()));
}

// The program while it reads one command line.
class Run {
 public:
  Run(const Program& program, Words words)
      : program_(program), words_(std::move(words)), described_(describe_program(program.name)) {}

  int run() {
    try {
      parse();
    } catch (const UsageError& error) {
      const std::string help = "Run '" + full_name() + " --help' for what can be said.\n";
      print_error(std::string("usage error: ") + error.what(), is_json() ? error_json("USAGE", error.what()) : help);
      return 2;
    } catch (const Failed& failed) {
      return flushed(failed.status);
    } catch (const Stopped& stopped) {
      std::cout.flush();
      return stopped.status;
    } catch (const rotary::Error& error) {
      return trouble(error.code(), error.what(), is_json());
    } catch (const std::bad_alloc&) {
      return trouble(Code::MEMORY, "the work does not fit in this machine's memory", is_json());
    } catch (const std::exception& error) {
      if (std::string_view(error.what()).find("DefaultCPUAllocator") != std::string_view::npos)  // torch's
        return trouble(Code::MEMORY, "the work does not fit in this machine's memory", is_json());
      return trouble(Code::INTERNAL, error.what(), is_json());
    }
    return flushed(0);
  }

 private:
  void parse() {
    if (words_.empty()) {
      std::cerr << help_of(described_, program_.name, CLI::AppFormatMode::Normal) << '\n';
      throw UsageError("a command is needed");
    }
    CLI::App app;
    app.name(program_.name);
    app.set_help_flag("-h");
    app.set_help_all_flag("--help");
    app.set_version_flag("-V,--version", program_.version);
    app.add_flag_callback("--help-all", [this] { print_all_help(); });
    app.require_subcommand(0, 1);  // a value may be a command's name: rotary inspect inspect
    app.formatter_fn([this](const CLI::App*, const std::string& name, CLI::AppFormatMode mode) {
      return help_of(described_, name, mode);
    });
    std::optional<Command> command;
    if (!words_.front().starts_with('-')) {
      const auto chosen = program_.commands.find(words_.front());
      if (chosen == program_.commands.end()) throw UsageError(no_command(described_, words_.front()));
      described_ = describe_command(chosen->first);
      chosen->second(command.emplace(*app.add_subcommand(chosen->first), described_));
    }
    try {
      app.parse(Words(words_.rbegin(), words_.rend()));  // CLI11's order
    } catch (const CLI::Success& request) {              // --help, --version
      app.exit(request);
    } catch (const CLI::ArgumentMismatch&) {  // the last word is an option, and its value is missing
      const OptionDescription* option = described_.find(words_.back().substr(0, words_.back().find('=')));
      if (option == nullptr) throw;
      throw UsageError(option->name() + " needs a value, " + option->name() + " " + option->value +
                       ", but is the last word");
    } catch (const CLI::ExtrasError&) {
      throw UsageError(sentence_of_extras(app.remaining(true), described_));
    } catch (const CLI::ParseError& error) {
      throw UsageError(error.what());
    }
  }

  void print_all_help() const {
    std::cout << help_of(described_, program_.name, CLI::AppFormatMode::All);
    for (const auto& [title, commands] : described_.groups) {
      for (const auto& [name, summary] : commands) {
        const std::string full = program_.name + " " + name;
        std::cout << "\n---- " << full << " ----\n" << help_of(describe_command(name), full, CLI::AppFormatMode::All);
      }
    }
  }

  bool is_json() const { return std::ranges::find(words_, "--json") != words_.end(); }

  // "rotary apply".
  std::string full_name() const {
    return described_.name == program_.name ? program_.name : program_.name + " " + described_.name;
  }

  int trouble(Code code, const std::string& sentence, bool json) const {
    print_error(std::string("error: ") + name(code) + ": " + sentence, json ? error_json(name(code), sentence) : "");
    return described_.name == "check" ? 2 : 1;  // check's 1 says that a tensor differs
  }

  int flushed(int status) const {
    std::cout.flush();
    return std::cout ? status : trouble(Code::FILE, "standard output could not be written", false);
  }

  const Program& program_;
  const Words words_;
  CommandDescription described_;  // of the program, or of the command that the words name
};

}  // namespace

int run_program(const Program& program, int argc, char** argv) {
  prepare_streams();
  std::ios::sync_with_stdio(false);
#ifdef SIGXFSZ
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of write(), with a sentence, like a full disk
#endif
  Words words(argv + 1, argv + argc);
  const std::string first = words.empty() ? "" : words.front();
  if (first == "help" && words.size() > 1) {
    words = {words[1], "--help"};
  } else if (first == "help" || first == "version") {
    words.front() = "--" + first;
  }
  return Run(program, std::move(words)).run();
}

}  // namespace rotary::cli
