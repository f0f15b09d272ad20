// rotary-torch: the commands that need libtorch.
#include <ATen/Context.h>
#include <malloc.h>
#include <torch/version.h>

#include <string>

#include "apps/shared/program.h"
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
  const auto version = [] {
    return std::string("rotary-torch ") + ROTARY_VERSION + ", libtorch " + TORCH_VERSION +
           (at::hasCUDA() ? ", a CUDA device" : ", no CUDA device");
  };
  using namespace rotary::cli;
  return run_program({"rotary-torch",
                      version,
                      {{"train", add_train},
                       {"generate", add_generate},
                       {"forward", add_forward},
                       {"perplexity", add_perplexity},
                       {"summary", add_summary}}},
                     argc, argv);
}
