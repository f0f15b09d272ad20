// gpu_measure.h in a build without CUDA: everything throws.
#include "gpu_measure.h"
#include "values/fail.h"

namespace rotary::gpu {

namespace {

[[noreturn]] void refuse() { fail(Code::CUDA, "gpu", "rotary was built without CUDA: build it with -DROTARY_CUDA=ON"); }

}  // namespace

Memory::Memory(std::size_t bytes) {
  if (bytes > 0) refuse();
}

std::size_t free_memory() { refuse(); }
std::size_t cache_bytes() { refuse(); }
void upload(void*, const void*, std::size_t, Stream) { refuse(); }
void download(void*, const void*, std::size_t, Stream) { refuse(); }
void fill(void*, int, std::size_t, Stream) { refuse(); }
void copy(const void*, void*, std::size_t, Stream) { refuse(); }
void move_bytes(const void*, void*, std::size_t, Stream) { refuse(); }

OwnStream::OwnStream() { refuse(); }
OwnStream::~OwnStream() = default;

rotary::detail::Medians times(const std::vector<CallSets>&, double, Stream, bool) { refuse(); }

}  // namespace rotary::gpu
