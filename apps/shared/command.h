// The commands of a program and their options. What they are called, take and say in the help stands in
// data/commands.json; the code says which variable an option sets.
//
// An option of commands.json, by its names ("CONFIG,--config"):
//   help         lines
//   value        what --help calls the value
//   section      the heading of the help under which it stands; without it the command's own
//   words        what the value can be; aliases: the list of other words for these; suggests: any other word is taken
//                too, these are for completions
//   range        least and most, which belong to it; --help does not name them. above_zero: without zero and NaN
//   comma_list   VALUE,VALUE too; excludes: another option of the command
//   required; usual: nearly every call has it, Usage shows it without brackets; shows_default: --help shows the value
//                that the variable has when it is added
// A string instead names an option of "shared", which several commands have; so does a name that the command does not
// describe. {"shared": true, ...} is the shared option of that name with other values.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace rotary::cli {

struct CommandEntry;
struct Program;

class Command {
 public:
  // A command of program, described in data/commands.json, that runs nothing yet.
  Command(Program& program, const std::string& name);

  // --name VALUE, or without dashes the next word; "CONFIG,--config": both, the same with several names; of a bool a
  // flag. T: bool, std::string, int, unsigned, std::int64_t, std::uint64_t, double, an optional of these but bool, or a
  // vector of std::string or std::int64_t. value stays as it is where the option is not given. A word that is no number
  // of the type is a usage error. words: what the value can be, where the program knows them and not the data.
  template <class T>
  void option(const std::string& name, T& value, std::vector<std::string> words = {});

  void footer(const std::string& text);  // the last lines of --help, where they are computed
  void group(const std::string& title);  // where the program's --help lists the command
  // Adds -q, --quiet too: what is written to std::cout is then thrown away; is_quiet() is for what goes elsewhere.
  // Throws INTERNAL where the data has an option that was not added.
  void runs(std::function<void()> run);

 private:
  CommandEntry& entry_;
  std::set<std::string> added_;  // options
};

bool is_quiet();  // whether -q was given

}  // namespace rotary::cli
