// Running a command line, and its exit status: shared by the programs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rotary/error.h"

namespace CLI {
class App;
}

namespace rotary::cli {

// Parses words and runs the chosen command. Returns the exit status: 0 done; 1 an error in the input, printed as
// "error: CODE: sentence", and as JSON too where words have --json (of check 2); 2 wrong usage; or what a command says.
int run_program(CLI::App& app, const std::vector<std::string>& words);

// argv without the program's name. "--positions -5:5" becomes "--positions=-5:5": a word that begins like a negative
// number would be read as an option.
std::vector<std::string> command_words(int argc, char** argv);
std::string command_text();  // the program's last command_words, for a shell

// -h, the short help, and --help, the whole, of app and of the commands that are added to it afterwards.
void set_help(CLI::App& app);

bool wants_json(const std::vector<std::string>& words);  // whether --json is among them

// Prints "error: CODE: sentence" on standard error, with json a second line {"version", "error": {"code", "message"}}.
// Returns 1.
int print_error(Code code, std::string_view sentence, bool json);
// Prints "usage error: sentence" and which help has more, or with json that object with the code USAGE. full_name:
// "rotary apply". Returns 2.
int print_usage_error(std::string_view sentence, const std::string& full_name, bool json);

// A command that has printed its answer, and the answer is no, throws this.
struct Failed {
  int status;
};

// Ctrl-C: a command that stops early and has saved its work throws this; nothing is printed.
struct Stopped {
  int status;  // 128 + the signal's number
};

}  // namespace rotary::cli
