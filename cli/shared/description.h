// cli/data/commands.json describes the programs, their commands and their options: names, values and help. It is the
// only source: the options of CLI11, the checks of their values, the rules between them, the help and the sentences of
// usage errors are made from it here, the completion for bash and the man page by cli/shell_files.py.
//
// Its objects have the members of the structs below, with these exceptions. An option is found by its key. A string in
// place of an option names an option in "shared", which several commands have; {"shared": true, ...} is the shared
// option of the same key with some members replaced. A command with "rope_options": true has those first. A string
// among "rules" names a list of shared rules. A row of "former" is an old name of a command, which still works with a
// note: the command whose options it has, and its new name. A row of "gone" is a removed command and its replacement.
#pragma once

#include <cstdint>
#include <map>
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

struct OptionDescription {
  std::string key;    // its names, as "CONFIG,--config"; one without dashes is given by its place on the command line
  std::string place;  // "CONFIG"; empty for an option that is given by name only
  std::vector<std::string> names;   // the names with dashes: "-q", "--quiet"
  std::vector<std::string> former;  // old names, which still work with a note
  std::string type;                 // integer, number, word, path or text; empty: a flag
  std::string value;                // the placeholder in the help; by default the place, or the type's word in "values"
  std::string help;                 // in the data a list of lines
  std::string brief;                // for -h; empty: the help
  std::string section;              // the heading of the help under which it stands; empty: the command's own
  std::string standard;            // "default" in the data. An option that is given with this value counts as not given
  std::vector<std::string> words;  // the values that it takes
  std::map<std::string, std::vector<std::string>>
      aliases;                                 // other words for each of them; in the data the name of a list
  std::map<std::string, std::string> refused;  // words that are not taken here, and the reason
  std::vector<double> range;              // a number's least, and its most where there is one; both belong to it
  std::vector<std::int64_t> whole_range;  // an integer's
  bool suggests = false;                  // any other word is taken too, `words` are for completions
  bool list = false, comma_list = false;  // several values; VALUE,VALUE too
  bool required = false;
  bool usual = false;  // nearly every call has it: Usage shows it without brackets

  const std::string& name() const { return place.empty() ? long_name() : place; }  // for sentences
  const std::string& long_name() const;                                            // "--quiet"
  bool is_flag() const { return type.empty(); }
  bool has_fixed_words() const { return !words.empty() && !suggests; }
};

// If one of `options` is given, one of `needs` must be given too, and none of `excludes`; if `options` is empty, one of
// `needs` must always be given. "--scaling=yarn" is the option with this value, "--scaling!yarn" with any other.
struct Rule {
  std::vector<std::string> options, needs, excludes;
  std::string why;
};

using Terms = std::vector<std::pair<std::string, std::string>>;  // each with its explanation

// A command, or a program with its commands.
struct CommandDescription {
  std::string name, full_name;                  // "apply", "rotary apply"
  std::vector<std::string> summary;             // paragraphs; in the data one of several lines is a list of them
  std::vector<std::string> footer;              // the same; one that begins with a space stays as it is
  std::vector<std::string> examples;            // lines
  std::vector<std::string> brief = {};          // paragraphs at the end of -h
  std::vector<OptionDescription> options = {};  // the place first, then required ones, the command's own, and sections
  std::vector<Rule> rules = {};
  std::vector<std::pair<std::string, Terms>> groups = {};  // a program's commands by headings of the help

  const std::string& place() const { return options.front().place; }  // the only one, or empty
  const OptionDescription* find(const std::string& name) const;       // by a name with dashes; null: there is none
};

CommandDescription describe_program(const std::string& name);
CommandDescription describe_command(const std::string& name, const std::string& program = "rotary");
std::string instead_of(const std::string& command);  // from "gone"; empty for any other word
std::string now_called(const std::string& command);  // from "former": "check --details"; empty for any other word

// ---- help.cpp ----

// The text of --help, and of -h: the command's own options, those of the examples, and the examples.
std::string help_text(const CommandDescription&);
std::string short_help_text(const CommandDescription&);

// ---- usage.cpp ----

// Throws UsageError if a required option is missing or a rule is broken. given: the words of each option, by its key.
void check_rules(const CommandDescription&, const std::map<std::string, std::vector<std::string>>& given);

// The sentence about words that have no place on the command line: "there is no option '--lenght': did you mean
// --length?", "table takes one CONFIG but got 'b' too"; and about an unknown or a removed command.
std::string no_place(const CommandDescription&, const std::vector<std::string>& words);
std::string no_command(const CommandDescription& program, const std::string& word);

}  // namespace rotary::cli
