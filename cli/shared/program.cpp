#include "program.h"

#include <algorithm>
#include <csignal>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>

#include "rotary/config.h"
#include "rotary/error.h"
#include "system.h"
#include "text.h"

namespace rotary::cli {

namespace {

using Words = std::vector<std::string>;

std::string error_json(const std::string& code, const std::string& sentence) {
  const nlohmann::ordered_json error = {{"code", code}, {"message", sentence}};
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;  // replaces bytes that are not UTF-8
  return with_version(nlohmann::ordered_json({{"error", error}}).dump(-1, ' ', false, replace)) + "\n";
}

// A single write, so that processes that share a terminal, as under mpirun, do not mix their lines.
void print_error(const std::string& line, const std::string& more) { std::cerr << printable(line) + "\n" + more; }

// The program while it reads one command line.
class Run {
 public:
  Run(const Program& program, Words words)
      : program_(program), words_(std::move(words)), described_(describe_program(program.name)) {}

  int run() {
    try {
      read_and_run();
    } catch (const UsageError& error) {
      const std::string help = "'" + described_.full_name + " --help' explains every option.\n";
      print_error(std::string("usage error: ") + error.what(), is_json() ? error_json("USAGE", error.what()) : help);
      return 2;
    } catch (const Failed& failed) {
      return flushed(failed.status);
    } catch (const rotary::Error& error) {
      return trouble(error.code(), error.what(), is_json());
    } catch (const std::bad_alloc&) {
      return trouble(Code::MEMORY, "the work does not fit in this machine's memory", is_json());
    } catch (const std::exception& error) {
      return trouble(Code::INTERNAL, error.what(), is_json());
    }
    return flushed(0);
  }

 private:
  void read_and_run() {
    if (words_.empty()) {
      std::cerr << short_help_text(described_) << '\n';
      throw UsageError("a command is needed");
    }
    auto chosen = program_.commands.end();
    if (!words_.front().starts_with('-')) {
      chosen = program_.commands.find(words_.front());
      if (chosen == program_.commands.end()) throw UsageError(no_command(described_, words_.front()));
      described_ = describe_command(chosen->first, program_.name);
      words_.erase(words_.begin());
      if (const std::string now = now_called(chosen->first); !now.empty() && !is_json())
        std::cerr << "note: " << chosen->first << " is called " << now << " now\n";
    }
    Command command(described_);
    std::filesystem::path models;
    command.option("--models", models);
    if (chosen != program_.commands.end()) chosen->second(command);
    command.parse(words_);
    if (command.has("--models")) use_models(models);
    compares_ = command.has("--against");
    if (command.has("--help-all")) print_all_help();
    if (command.has("-V,--version")) {
      std::cout << program_.version() << '\n';
    } else if (command.has("--help")) {
      std::cout << help_text(described_);
    } else if (command.has("-h")) {
      std::cout << short_help_text(described_);
    } else {
      command.run();
      if (chosen == program_.commands.end() && !command.has("--help-all")) throw UsageError("a command is needed");
    }
  }

  void print_all_help() const {
    std::cout << help_text(described_);
    for (const auto& [title, commands] : described_.groups) {
      for (const auto& [name, summary] : commands) {
        const CommandDescription command = describe_command(name, program_.name);
        std::cout << "\n---- " << command.full_name << " ----\n" << help_text(command);
      }
    }
  }

  bool is_json() const { return std::ranges::find(words_, "--json") != words_.end(); }

  int trouble(Code code, const std::string& sentence, bool json) const {
    print_error(std::string("error: ") + name(code) + ": " + sentence, json ? error_json(name(code), sentence) : "");
    return compares_ || described_.name == "check" ? 2 : 1;  // the 1 of a comparison says that something differs
  }

  int flushed(int status) const {
    std::cout.flush();
    return !std::cout.bad() ? status : trouble(Code::FILE, "standard output could not be written", is_json());
  }

  const Program& program_;
  Words words_;                   // after the command
  CommandDescription described_;  // the program, or the command that the words name
  bool compares_ = false;         // with what another program made
};

// "--models FILE COMMAND ..." is "COMMAND ... --models FILE", "help COMMAND" is "COMMAND --help".
Words command_first(Words words) {
  if (words.empty()) return words;
  const std::ptrdiff_t own = words[0] == "--models" ? 2 : words[0].starts_with("--models=") ? 1 : 0;
  if (own < std::ssize(words) && !words[static_cast<std::size_t>(own)].starts_with('-'))
    std::rotate(words.begin(), words.begin() + own, words.end());
  const auto is_word = [](const std::string& word) { return word == "help" || word == "version"; };
  if (words[0] == "help" && words.size() > 1 && !words[1].starts_with('-') && !is_word(words[1]))
    return {words[1], "--help"};
  if (is_word(words[0])) words[0] = "--" + words[0];
  return words;
}

}  // namespace

int run_program(const Program& program, int argc, char** argv) {
  prepare_streams();
  set_models_beside(data_beside("models.json"));
  std::ios::sync_with_stdio(false);
#ifdef SIGXFSZ
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of write(), with a sentence, like a full disk
#endif
  return Run(program, command_first({argv + 1, argv + argc})).run();
}

}  // namespace rotary::cli
