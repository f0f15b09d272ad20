#include "runtime/arithmetic.h"

#include "table_memory.h"

#include <cstdlib>
#include <limits>
#include <new>

#include "runtime/compiler.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace rotary::detail {
namespace {

constexpr std::size_t line = 64, huge_page = std::size_t{1} << 21;

std::size_t bytes_of(std::size_t capacity) noexcept { return 2 * capacity * sizeof(float); }
std::align_val_t alignment_of(std::size_t capacity) noexcept {
  return std::align_val_t{bytes_of(capacity) < huge_page ? line : huge_page};
}

}  // namespace

Rows::~Rows() {
  if (cos_ != nullptr) ::operator delete(cos_, alignment_of(capacity_));
}

void Rows::reserve(std::size_t size) {
  if (size <= capacity_) return;
  constexpr std::size_t step = line / sizeof(float);
  if (size > std::numeric_limits<std::size_t>::max() / (4 * sizeof(float))) {
#if ROTARY_THROWS
    throw std::bad_alloc();
#else
    std::abort();
#endif
  }
  Rows larger;
  const std::size_t capacity = (size + step - 1) / step * step;
  larger.cos_ = static_cast<float*>(::operator new(bytes_of(capacity), alignment_of(capacity)));
  larger.capacity_ = capacity;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  // Only advice: if it is refused, the memory has small pages.
  if (bytes_of(capacity) >= huge_page) madvise(larger.cos_, bytes_of(capacity), MADV_HUGEPAGE);
#endif
  swap(larger);
}

}  // namespace rotary::detail
