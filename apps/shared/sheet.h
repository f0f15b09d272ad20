// What a program's commands take, read from their option tables: the help, the completions and the man page are
// written from it, and usage errors look in it.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace rotary::cli {

struct OptionSheet {
  std::vector<std::string> names;  // "-q", "--quiet"; a positional has one, without dashes
  std::string value;               // "FILE"; "" for a flag
  std::vector<std::string> words;  // what the value can be; empty: anything
  std::string standard;            // the default, where it is shown
  std::string help;
  bool positional = false, required = false;
  bool list = false;  // takes several values
};

struct CommandSheet {
  std::string name, summary, group, footer;
  std::vector<OptionSheet> options;  // positionals first
  std::vector<CommandSheet> commands;
};

// As JSON, which rotary-torch passes to rotary.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OptionSheet, names, value, words, standard, help, positional, required, list)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommandSheet, name, summary, group, footer, options, commands)

CommandSheet sheet_of(const CLI::App& app);  // of a program, or of one command

// What --help prints. full_name: "rotary apply". width: in columns, at least 60.
std::string help_text(const CommandSheet& sheet, const std::string& full_name, std::size_t width);
std::size_t help_width();  // of standard output where it is a terminal, at most 100; else 100

// How one_of() tells CLI11 its words, so that sheet_of finds them.
std::string description_of_words(const std::vector<std::string>& words);

// ---- sentences for command lines that cannot be understood: usage.cpp ----

// words: what follows the command's name. Throws UsageError for an option that the command does not have, one without
// its value, one given twice, and for a flag with a value; with the name that was probably meant.
void check_options(const CommandSheet& command, std::span<const std::string> words);

// "there is no command 'inpsect': did you mean inspect?"
std::string no_command(const CommandSheet& program, const std::string& word);

// What CLI11 found wrong while it read app's command line, in a sentence.
std::string sentence_of(const CLI::ParseError& error, const CLI::App& app);

}  // namespace rotary::cli
