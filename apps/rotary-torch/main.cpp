// rotary-torch: the commands that need libtorch.
#include <ATen/Context.h>
#include <malloc.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "apps/shared/program.h"
#include "apps/shared/system.h"
#include "commands.h"
#include "rotary/version.h"

int main(int argc, char** argv) {
#ifdef __GLIBC__
  // Each step frees its tensors and the next one allocates them again, so freed memory is kept. With glibc's defaults
  // every tensor above 32 MiB, and the top of the heap after each step, would be returned, mapped and zeroed again.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
  rotary::cli::prepare_streams();
  std::ios::sync_with_stdio(false);
  CLI::App app(
      "rotary-torch: a small decoder with rotary positions, trained and measured; checkpoints of Hugging Face.");
  app.name("rotary-torch");
  rotary::cli::set_help(app);
  app.set_version_flag("--version", std::string("rotary-torch ") + ROTARY_VERSION + ", libtorch " + TORCH_VERSION +
                                        (at::hasCUDA() ? ", a CUDA device" : ", no CUDA device"));
  rotary::cli::add_train(app);
  rotary::cli::add_generate(app);
  rotary::cli::add_forward(app);
  rotary::cli::add_perplexity(app);
  rotary::cli::add_summary(app);
  return rotary::cli::run_program(app, rotary::cli::command_words(argc, argv));
}
