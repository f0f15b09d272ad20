// gpu_measure.h in a build without CUDA: everything throws.
#include "gpu_measure.h"
#include "values/fail.h"

namespace rotary::gpu {

namespace {

[[noreturn]] void without_cuda() {
  fail(Code::CUDA, "gpu", "rotary was built without CUDA: build it with -DROTARY_CUDA=ON");
}

}  // namespace

Memory::Memory(std::size_t bytes) {
  if (bytes > 0) without_cuda();
}

std::size_t free_memory() { without_cuda(); }
std::size_t cache_bytes() { without_cuda(); }
void upload(void*, const void*, std::size_t, Stream) { without_cuda(); }
void download(void*, const void*, std::size_t, Stream) { without_cuda(); }
void fill(void*, int, std::size_t, Stream) { without_cuda(); }
void copy(const void*, void*, std::size_t, Stream) { without_cuda(); }
void move_bytes(const void*, void*, std::size_t, Stream) { without_cuda(); }

OwnStream::OwnStream() { without_cuda(); }
OwnStream::~OwnStream() = default;

rotary::detail::Medians times(const std::vector<CallSets>&, double, Stream, bool) { without_cuda(); }

}  // namespace rotary::gpu
