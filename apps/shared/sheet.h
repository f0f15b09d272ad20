// What a program's commands take: the help, the completions and the man page are written from it, and command lines are
// read by it.
#pragma once

#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace rotary::cli {

struct OptionSheet {
  std::string place;                 // "CONFIG" where it is given by its place too; "" where by name only
  std::vector<std::string> names;    // "-q", "--quiet"
  std::string value;                 // "FILE"; "" for a flag
  std::vector<std::string> words;    // what the value can be; empty: anything
  std::vector<std::string> aliases;  // "neox: half"
  std::string standard;              // the default, where it is shown
  std::string help;
  std::string group;  // its heading; "": the command's own
  bool required = false;
  bool usual = false;  // stands in Usage without brackets though it is not required
  bool fixed = false;  // nothing but words is taken
  bool list = false;   // takes several values
};

struct CommandSheet {
  std::string name, summary, group, footer;
  std::vector<OptionSheet> options;  // places first, then what is required, the command's own, and its groups
  std::vector<CommandSheet> commands;
};

// As JSON, which rotary-torch passes to rotary.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OptionSheet, place, names, value, words, aliases, standard, help, group, required,
                                   usual, fixed, list)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommandSheet, name, summary, group, footer, options, commands)

// An option, and how a command reads it.
struct Option : OptionSheet {
  std::string excludes;     // another option's name
  bool comma_list = false;  // VALUE,VALUE too
  // Of the values, of a flag none, where the option is given. "" or what is wrong with one: "must be ...".
  std::function<std::string(const std::vector<std::string>&)> read;
};

struct CommandEntry {
  std::string name, summary, group, footer;
  std::vector<Option> options;  // as they are read
  std::function<void()> run;
};

struct Program {
  // With -h, the short help, and --help, the whole.
  explicit Program(std::string summary, std::string footer = "");

  CommandEntry own;  // what is given without a command; its name is that of the program
  std::deque<CommandEntry> commands;
};

CommandEntry new_entry(std::string name, std::string summary, std::string footer);  // with -h and --help
// A flag that data/commands.json does not describe; given: what it does.
void add_flag(CommandEntry& entry, std::vector<std::string> names, std::string help, std::function<void()> given);

CommandSheet sheet_of(const CommandEntry& entry);
CommandSheet sheet_of(const Program& program);

// What --help prints, and -h: the command's own options with a line each, and the examples. full_name: "rotary apply".
// width: in columns, at least 60.
std::string help_text(const CommandSheet& sheet, const std::string& full_name, std::size_t width);
std::string short_help_text(const CommandSheet& sheet, const std::string& full_name, std::size_t width);
std::size_t help_width();        // of standard output where it is a terminal, at most 100; else 100
std::size_t short_help_width();  // likewise, at most 80

std::string long_name(const OptionSheet& option);  // the first that has one; "" where none does

// ---- command lines: reader.cpp ----

const CommandEntry* command_named(const Program& program, const std::string& name);  // null: there is none
// "there is no command 'inpsect': did you mean inspect?"
std::string no_command(const Program& program, const std::string& word);

// Reads words, which follow the command's name, and runs the command or prints its help; null: the program's own.
// Throws UsageError, where a name is wrong with the one that was probably meant, and what the command throws.
void run_entry(const Program& program, const CommandEntry* command, const std::vector<std::string>& words);

}  // namespace rotary::cli
