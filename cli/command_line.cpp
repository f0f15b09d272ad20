#include "commands.h"
#include "shared/program.h"

namespace rotary::cli {

int run_command_line(int argc, char** argv) {
  return run_program({"rotary",
                      version_text,
                      {{"accuracy", add_accuracy},
                       {"apply", add_apply},
                       {"bench", add_bench},
                       {"check", add_check},
                       {"convert", add_convert},
                       {"demo", add_demo},
                       {"diagnose", add_diagnose},
                       {"explain", add_explain},
                       {"extend", add_extend},
                       {"golden", add_golden},
                       {"inspect", add_inspect},
                       {"models", add_models},
                       {"positions", add_positions},
                       {"table", add_table}}},
                     argc, argv);
}

}  // namespace rotary::cli
