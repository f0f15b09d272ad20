// rotary-torch: the commands that need libtorch.
#include <ATen/Context.h>
#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <torch/version.h>

#include <new>
#include <string>

#include "commands.h"
#include "rotary/version.h"
#include "shared/program.h"

namespace {

// torch's own for the CPU, but where memory runs out it throws std::bad_alloc, as everything else does: torch has no
// type for that error.
class Allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    try {
      return torch_->allocate(bytes);
    } catch (const c10::Error&) {
      throw std::bad_alloc();
    }
  }
  c10::DeleterFnPtr raw_deleter() const override { return torch_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { torch_->copy_data(to, from, bytes); }

 private:
  c10::Allocator* const torch_ = c10::GetDefaultCPUAllocator();
};

}  // namespace

int main(int argc, char** argv) {
  static Allocator allocator;
  c10::SetCPUAllocator(&allocator);
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
