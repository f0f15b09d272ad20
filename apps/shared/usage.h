// Sentences for command lines that cannot be understood.
#pragma once

#include <span>
#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace rotary::cli {

struct CommandSheet;

// words: what follows the command's name. Throws UsageError for an option that the command does not have, one without
// its value, one given twice, and for a flag with a value; with the name that was probably meant.
void check_options(const CommandSheet& command, std::span<const std::string> words);

// "there is no command 'inpsect': did you mean inspect?"
std::string no_command(const CommandSheet& program, const std::string& word);

// What CLI11 found wrong while it read app's command line, in a sentence.
std::string sentence_of(const CLI::ParseError& error, const CLI::App& app);

}  // namespace rotary::cli
