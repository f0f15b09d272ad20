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

std::string error_json(const std::string& code, std::string_view sentence) {
  const nlohmann::ordered_json error = {{"code", code}, {"message", std::string(sentence)}};
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;  // of bytes that are not UTF-8
  return with_version(nlohmann::ordered_json({{"error", error}}).dump(-1, ' ', false, replace)) + "\n";
}

// Prints "error: CODE: sentence" on standard error, with json a second line {"version", "error": {"code", "message"}}.
// A single write, so that processes that share a terminal, as under mpirun, do not mix their lines.
int print_error(Code code, std::string_view sentence, bool json) {
  const std::string word(name(code));
  std::cerr << "error: " + word + ": " + printable(sentence) + "\n" + (json ? error_json(word, sentence) : "");
  return 1;
}

// Prints "usage error: sentence" and which help has more, or with json that object with the code USAGE.
int print_usage_error(std::string_view sentence, const std::string& full_name, bool json) {
  const std::string help = "Run '" + full_name + " --help' for what can be said.\n";
  std::cerr << "usage error: " + printable(sentence) + "\n" + (json ? error_json("USAGE", sentence) : help);
  return 2;
}

void read_as_options(Words& words) {
  if (words[0] == "help" && words.size() > 1) {
    words = {words[1], "--help"};
  } else if (words[0] == "help" || words[0] == "version") {
    words[0] = "--" + words[0];
  }
}

// The words that CLI11 found no place for.
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

// The program while it reads one command line.
class Run {
 public:
  Run(const Program& program, Words words)
      : program_(program),
        words_(std::move(words)),
        names_command_(!words_.front().starts_with('-')),
        is_json_(std::ranges::find(words_, "--json") != words_.end()),
        full_name_(program.name + (names_command_ ? " " + words_.front() : "")) {}

  int run() {
    try {
      parse();
    } catch (const UsageError& error) {
      return print_usage_error(error.what(), full_name_, is_json_);
    } catch (const Failed& failed) {
      return flushed(failed.status);
    } catch (const Stopped& stopped) {
      std::cout.flush();
      return stopped.status;
    } catch (const rotary::Error& error) {
      return trouble(error.code(), error.what(), is_json_);
    } catch (const std::bad_alloc&) {
      return trouble(Code::MEMORY, "the work does not fit in this machine's memory", is_json_);
    } catch (const std::exception& error) {
      if (std::string_view(error.what()).find("DefaultCPUAllocator") != std::string_view::npos)  // torch's
        return trouble(Code::MEMORY, "the work does not fit in this machine's memory", is_json_);
      return trouble(Code::INTERNAL, error.what(), is_json_);
    }
    return flushed(0);
  }

 private:
  void parse() {
    CommandDescription described = describe_program(program_.name);
    const auto chosen = names_command_ ? program_.commands.find(words_.front()) : program_.commands.end();
    if (names_command_ && chosen == program_.commands.end()) {
      full_name_ = program_.name;
      throw UsageError(no_command(described, words_.front()));
    }
    CLI::App app;
    app.name(program_.name);
    app.set_help_flag("-h");
    app.set_help_all_flag("--help");
    app.set_version_flag("-V,--version", program_.version);
    app.add_flag_callback("--help-all", [this] { print_all_help(); });
    app.require_subcommand(0, 1);  // a value may be a command's name: rotary inspect inspect
    app.formatter_fn([&described](const CLI::App*, const std::string& full_name, CLI::AppFormatMode mode) {
      constexpr std::size_t screen = 80;
      return mode == CLI::AppFormatMode::All ? help_text(described, full_name, help_width())
                                             : short_help_text(described, full_name, std::min(screen, help_width()));
    });
    std::optional<Command> command;
    if (names_command_) {
      described = describe_command(chosen->first);
      chosen->second(command.emplace(*app.add_subcommand(chosen->first), described));
    }
    try {
      app.parse(Words(words_.rbegin(), words_.rend()));  // CLI11's order
    } catch (const CLI::Success& request) {              // --help, --version
      app.exit(request);
    } catch (const CLI::ArgumentMismatch&) {  // thrown for the last word alone, an option whose value is missing
      const OptionDescription* option = described.find(words_.back().substr(0, words_.back().find('=')));
      const std::string name = option == nullptr ? words_.back() : option->name();
      throw UsageError(name + " needs a value, " + name + " " + (option == nullptr ? "" : option->value) +
                       ", but is the last word");
    } catch (const CLI::ExtrasError&) {
      throw UsageError(sentence_of_extras(app.remaining(true), described));
    } catch (const CLI::ParseError& error) {
      throw UsageError(error.what());
    }
  }

  void print_all_help() const {
    const std::size_t width = help_width();
    const CommandDescription described = describe_program(program_.name);
    std::cout << help_text(described, program_.name, width);
    for (const auto& [title, commands] : described.groups) {
      for (const auto& [name, summary] : commands) {
        const std::string full_name = program_.name + " " + name;
        std::cout << "\n---- " << full_name << " ----\n" << help_text(describe_command(name), full_name, width);
      }
    }
  }

  // check's 1 says that a tensor differs.
  int trouble(Code code, std::string_view sentence, bool json) const {
    const int status = print_error(code, sentence, json);
    return words_.front() == "check" ? 2 : status;
  }

  int flushed(int status) const {
    std::cout.flush();
    return std::cout ? status : trouble(Code::FILE, "standard output could not be written", false);
  }

  const Program& program_;
  Words words_;
  bool names_command_, is_json_;
  std::string full_name_;  // "rotary apply"
};

}  // namespace

int run_program(const Program& program, int argc, char** argv) {
  prepare_streams();
  std::ios::sync_with_stdio(false);
#ifdef SIGXFSZ
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of write(), with a sentence, like a full disk
#endif
  Words words(argv + 1, argv + argc);
  if (words.empty()) {
    const std::size_t width = std::min<std::size_t>(80, help_width());
    std::cerr << short_help_text(describe_program(program.name), program.name, width) << '\n';
    return print_usage_error("a command is needed", program.name, false);
  }
  read_as_options(words);
  return Run(program, std::move(words)).run();
}

}  // namespace rotary::cli
