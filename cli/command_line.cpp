#include "commands.h"
#include "shared/program.h"

namespace rotary::cli {

int run_command_line(int argc, char** argv) {
  return run_program({"rotary",
                      version_text,
                      {{"accuracy", add_accuracy},
                       {"apply", add_apply},
                       {"check", add_check},
                       {"convert", add_convert},
                       {"diagnose", add_diagnose},
                       {"explain", add_explain},
                       {"extend", add_extend},
                       {"golden", add_golden},
                       {"inspect", add_inspect},
                       {"models", add_models},
                       {"positions", add_positions},
#ifndef __wasm__  // in a page there is no machine to measure, no bundled file and no page
                       {"bench", add_bench},
                       {"demo", add_demo},
                       {"explore", add_explore},
#endif
                       {"table", add_table}}},
                     argc, argv);
}

}  // namespace rotary::cli
