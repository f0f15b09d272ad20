// rotary: the program.
#include "commands.h"

int main(int argc, char** argv) { return rotary::cli::run_command_line(argc, argv); }
