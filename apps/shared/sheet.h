// The options that the commands of a program take, read from their option tables. The help is written from them, and
// usage errors look in them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

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

CommandSheet sheet_of(const CLI::App& app);                      // of a program, or of one command
const OptionSheet* described_option(const CLI::Option& option);  // what Command::option() added; null: another flag

// What --help prints, and -h: the command's own options with a line each, and the examples. full_name: "rotary apply".
// width: in columns, at least 60.
std::string help_text(const CommandSheet& sheet, const std::string& full_name, std::size_t width);
std::string short_help_text(const CommandSheet& sheet, const std::string& full_name, std::size_t width);
// The sentence that says what to do instead of a command that is gone, from "gone" in data/commands.json; "" for any
// other word.
std::string instead_of(const std::string& command);
std::size_t help_width();  // of standard output where it is a terminal, at most 100; else 100

std::string long_name(const OptionSheet& option);  // the first that has one; "" where none does

// ---- sentences for command lines that cannot be understood: usage.cpp ----

// words: what follows the command's name. Throws UsageError for an option that the command does not have, one without
// its value, one given twice, and for a flag with a value; with the name that was probably meant.
void check_options(const CommandSheet& command, std::span<const std::string> words);

// "there is no command 'inpsect': did you mean inspect?"; of a row of "gone" in data/commands.json what to do instead.
std::string no_command(const CommandSheet& program, const std::string& word);

// What CLI11 found wrong while it read app's command line, in a sentence.
std::string sentence_of(const CLI::ParseError& error, const CLI::App& app);

}  // namespace rotary::cli
