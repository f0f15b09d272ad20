// The commands of a program and their options, as CLI11 reads them. What they are called, take and say in the help
// stands in data/commands.json; the code says which variable an option sets. CLI11's own header takes a compiler two
// seconds, most of them for constants that it makes in each file: only command.cpp, sheet.cpp, usage.cpp and
// program.cpp and the programs' main include it.
//
// An option of commands.json, by its names ("CONFIG,--config"):
//   help         lines
//   value        what --help calls the value; without it by its type
//   section      the heading of the help under which it stands; without it the command's own
//   words        what the value can be; aliases: the list of other words for these; suggests: any other word is taken
//                too, these are for completions
//   range        least and most, which belong to it; --help does not name them. above_zero: without zero and NaN
//   comma_list   VALUE,VALUE too; excludes: another option, added before
//   required; usual: nearly every call has it, Usage shows it without brackets; shows_default: --help shows the value
//                that the variable has when it is added
// A row of "gone" is a command that is no longer there: its name, and what to do instead, which a usage error says.
// A string instead names an option of "shared", which several commands have. {"shared": true, ...} is the shared option
// of that name with other values. A command with "rope_options": true has the shared options of that list too.
// apps/rotary/shell_files.py makes the completion for bash and the man page from the same data.
#pragma once

#include <concepts>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace rotary::cli {

class Command {
 public:
  // A command of app, described in data/commands.json, that runs nothing yet.
  Command(CLI::App& app, const std::string& name);

  // --name VALUE, or without dashes the next word; "CONFIG,--config": both, the same with several names; of a bool a
  // flag. T: bool, std::string, std::filesystem::path, int, unsigned, std::int64_t, std::uint64_t, double, an optional of
  // these but bool and path, or a vector of std::string or std::int64_t. value stays as it is where the option is not
  // given. A word that is no number of the type is a usage error. words: what the value can be, where the program knows
  // them and not the data.
  template <class T>
  void option(const std::string& name, T& value, const std::vector<std::string>& words = {});
  // An option whose value `read` makes from the word: option("--pairing", pairing, parse_pairing).
  template <class T, class Read>
    requires std::invocable<Read, const std::string&>
  void option(const std::string& name, T& value, Read read) {
    option_read(name, [&value, read](const std::string& word) { value = read(word); });
  }

  Command& footer(const std::string& text);  // the last lines of --help, where they are computed
  Command& group(const std::string& title);  // where the program's --help lists the command
  // Adds -q, --quiet too: what is written to std::cout is then thrown away; is_quiet() is for what goes elsewhere.
  // Throws INTERNAL where the data has other options than were added.
  Command& runs(std::function<void()> run);

 private:
  void option_read(const std::string& name, std::function<void(const std::string&)> read);

  CLI::App* app_;
  std::set<std::string> added_;  // options
};

bool is_quiet();  // whether -q was given

}  // namespace rotary::cli
