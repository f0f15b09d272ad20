// The commands of a program and their options, as CLI11 reads them. CLI11's own header takes a compiler two seconds,
// most of them for constants that it makes in each file: only command.cpp, sheet.cpp, usage.cpp and program.cpp and the
// programs' main include it.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rotary::cli {

// Words that the field has for ours, and ours: {"neox", "half"}.
using Aliases = std::vector<std::pair<std::string, std::string>>;

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option& type_name(const std::string& word);  // of the value, in --help
  Option& required();
  Option& usual();          // what nearly every call has: Usage shows it without brackets
  Option& shows_default();  // in --help, the value that the variable has now
  Option& one_of(const std::vector<std::string>& words, const Aliases& aliases = {});  // those of its words count
  Option& suggests(const std::vector<std::string>& words);  // for completions; any other is taken too
  // least and most belong to it. --help does not name them. T: int, unsigned, std::int64_t, double.
  template <class T>
  Option& range(T least, T most);
  Option& above_zero();  // a number, without zero and NaN
  Option& comma_list();  // of a list: --option VALUE,VALUE too
  Option& excludes(const Option& other);
  Option& help(const std::string& text);  // instead of what it was added with

 private:
  CLI::Option* option_;
};

class Command {
 public:
  // A command of app that runs nothing yet.
  Command(CLI::App& app, const std::string& name, const std::string& help);

  Option flag(const std::string& name, bool& value, const std::string& help);
  // --name VALUE, or without dashes the next word; "CONFIG,--config": both, the same with several names. T:
  // std::string, int, unsigned, std::int64_t, std::uint64_t, double, an optional of these, or a vector of std::string
  // or std::int64_t. value stays as it is where the option is not given. A word that is no number of the type is a
  // usage error.
  template <class T>
  Option option(const std::string& name, T& value, const std::string& help);
  Option added(const std::string& name);  // an option that is there

  // Under which heading of the help the options stand that are added from here on; "": the command's own.
  Command& section(const std::string& title);
  Command& footer(const std::string& text);  // the last lines of --help
  Command& group(const std::string& title);  // where the program's --help lists the command
  // Adds -q, --quiet too: what is written to std::cout is then thrown away; is_quiet() is for what goes elsewhere.
  Command& runs(std::function<void()> run);

 private:
  CLI::App* app_;
};

bool is_quiet();  // whether -q was given

}  // namespace rotary::cli
