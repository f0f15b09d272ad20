// rotary: the program.
#include "command_line.h"

int main(int argc, char** argv) { return rotary::cli::run_command_line(argc, argv); }
