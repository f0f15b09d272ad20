// The program, for main() and for the Python package.
#pragma once

namespace rotary::cli {

// Returns the exit status. 0: done. 1: an error in the input, "error: CODE: sentence". 2: wrong usage.
int run_command_line(int argc, char** argv);

}  // namespace rotary::cli
