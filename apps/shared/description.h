// data/commands.json: what the programs, their commands and their options are called, take and say in the help. It is
// the only source: the options of CLI11, the checks of their values, the rules between them, the help and the sentences
// of usage errors are made from it here, the completion for bash and the man page by apps/rotary/shell_files.py.
//
// An option, by its names ("CONFIG,--config"; a name without dashes is a place on the command line):
//   type         integer, number, word, path or text; an option without a type is a flag
//   value        the name of the value in the help; by default the type's ("N", "FILE", "WORD") or the place
//   words        the words that the value can be; aliases: the list of other words for these; suggests: any other word
//   is
//                taken too, these are for completions; refused: words that are none of these here, and why
//   range        the least value, and the most where there is one; both belong to it
//   default      the value where the option is not given. An option that is given with it counts as not given
//   list         several values; comma_list: VALUE,VALUE too
//   required; usual: nearly every call has it, Usage shows it without brackets
//   former       names of before, which are taken and noted
//   section      the heading of the help under which it stands; without it the command's own
//   help         lines
// A string instead names an option of "shared", which several commands have; {"shared": true, ...} is the shared option
// of that name with other values. A command with "rope_options": true has the shared options of that list first.
//
// A rule of "rules" (a string instead is a list of the shared rules): where one of `options` is given, one of `needs`
// must be given too, and none of `excludes` can be; without `options` one of `needs` must always be given.
// "--scaling=yarn" is the option with that value, "--scaling!yarn" with another one. A row of "gone" is a command that
// is no longer there, and what to do instead.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace rotary::cli {

// The command line itself is wrong: exit status 2. Errors in a file, a position or a shape are rotary::Error: exit
// status 1.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class ValueType { flag, integer, number, word, path, text };

struct OptionDescription {
  std::string key;                         // "CONFIG,--config"
  std::string place;                       // "CONFIG"; empty where it is given by name only
  std::vector<std::string> names, former;  // "-q", "--quiet"
  ValueType type = ValueType::flag;
  std::string value, help, section;
  std::string standard;  // the default; empty where there is none
  std::vector<std::string> words;
  std::map<std::string, std::vector<std::string>> aliases;  // by the word that they stand for
  std::map<std::string, std::string> refused;               // words, and why
  std::vector<double> range;                                // for a number
  std::vector<std::int64_t> whole_range;                    // for an integer
  bool suggests = false, list = false, comma_list = false, required = false, usual = false;

  const std::string& name() const { return place.empty() ? long_name() : place; }  // for sentences
  const std::string& long_name() const;                                            // "--quiet"
  bool has_name(const std::string&) const;
};

struct Rule {
  std::vector<std::string> options, needs, excludes;
  std::string why;
};

// A command, or a program with its commands by their headings in the help.
struct CommandDescription {
  std::string name, summary, footer;
  std::vector<OptionDescription> options;  // places first, then required ones, the command's own, and sections
  std::vector<Rule> rules;
  std::vector<std::pair<std::string, std::vector<std::pair<std::string, std::string>>>> groups;  // names and summaries

  const OptionDescription* find(const std::string& name) const;  // by a name with dashes; null where there is none
};

CommandDescription describe_program(const std::string& name);
CommandDescription describe_command(const std::string& name);
std::string instead_of(const std::string& command);  // from "gone"; empty for any other word

// ---- help.cpp ----

// The text of --help, and of -h: the command's own options with a line each, and the examples. full_name: "rotary
// apply". width: in columns, at least 60.
std::string help_text(const CommandDescription&, const std::string& full_name, std::size_t width);
std::string short_help_text(const CommandDescription&, const std::string& full_name, std::size_t width);
std::size_t help_width();  // of standard output where it is a terminal, at most 100; else 100

// ---- usage.cpp ----

// Throws UsageError where a required option is missing or a rule is broken. given: the words of each option, by its
// key.
void check_rules(const CommandDescription&, const std::map<std::string, std::vector<std::string>>& given);

// "there is no option '--lenght': did you mean --length?", and likewise of a command; of one that is gone what to do
// instead.
std::string no_option(const CommandDescription&, const std::string& word);
std::string no_command(const CommandDescription& program, const std::string& word);

}  // namespace rotary::cli
