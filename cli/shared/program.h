// Running a command line, and its exit status: shared by the programs.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "command.h"

namespace rotary::cli {

struct Program {
  std::string name;  // its name in cli/data/commands.json
  std::function<std::string()> version;
  std::map<std::string, void (*)(Command&)> commands;  // each sets up the options of a command, and its run
};

// Parses the words after the program's name and runs the chosen command. Returns the exit status: 0 done; 1 an error
// in the input (check: 2), printed as "error: CODE: sentence", with --json as JSON too; 2 wrong usage; or the status
// that a command throws. "help", "help COMMAND" and "version" are "--help", "COMMAND --help" and "--version".
int run_program(const Program&, int argc, char** argv);

// Thrown by a command whose printed answer is no, and by one that Ctrl-C has stopped after its work was saved.
struct Failed {
  int status;  // after Ctrl-C 128 + the signal's number
};

}  // namespace rotary::cli
