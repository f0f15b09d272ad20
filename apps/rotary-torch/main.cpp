// rotary-torch: the commands of rotary that need libtorch. `rotary train` and the others execute this program.
#include <ATen/Context.h>
#include <malloc.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/shared/program.h"
#include "apps/shared/sheet.h"
#include "apps/shared/system.h"
#include "apps/shared/torch_commands.h"
#include "rotary/version.h"

namespace {

// Each step frees its tensors and the next one allocates them again, so freed memory is kept. With glibc's defaults
// every tensor above 32 MiB, and the top of the heap after each step, would be returned, mapped and zeroed again.
void keep_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

// What `rotary --version` says of this program.
std::string parts() {
  return std::string("libtorch " TORCH_VERSION) + (at::hasCUDA() ? ", a CUDA device" : ", no CUDA device");
}

}  // namespace

int main(int argc, char** argv) {
  keep_memory();
  rotary::cli::prepare_streams();
  std::ios::sync_with_stdio(false);
  CLI::App app("rotary-torch: the commands of rotary that need libtorch. Say 'rotary train' and so on.");
  app.name("rotary");
  rotary::cli::set_help(app);
  app.set_version_flag("--version", std::string("rotary ") + ROTARY_VERSION);
  rotary::cli::add_train(app);
  rotary::cli::add_generate(app);
  rotary::cli::add_forward(app);
  rotary::cli::add_perplexity(app);
  rotary::cli::add_summary(app);

  const std::vector<std::string> words = rotary::cli::command_words(argc, argv);
  if (words.empty())
    return rotary::cli::print_usage_error("a command is needed: rotary train, rotary generate, ...", "", false);
  if (words[0] == "--sheet") {  // rotary asks, for completions and the man page
    std::cout << nlohmann::json(rotary::cli::sheet_of(app)).dump() << '\n';
    return 0;
  }
  if (words[0] == "--parts") {
    std::cout << parts() << '\n';
    return 0;
  }
  return rotary::cli::run_program(app, words);
}
