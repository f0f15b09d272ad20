// prepare(): after it the first rotation of a process allocates nothing, which also means that it opens no file.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "rotary/rotary.h"
#include "rotary/rotary_c.h"

#if defined(__GLIBC__) && !defined(ROTARY_SANITIZED)  // a sanitizer has a malloc of its own
#define COUNTS_MALLOC 1
#else
#define COUNTS_MALLOC 0
#endif

namespace {

int allocations = 0;

}  // namespace

#if COUNTS_MALLOC
// Takes the place of the C library's for this program; fopen and operator new call it too.
extern "C" void* __libc_malloc(std::size_t bytes);              // NOLINT
extern "C" [[gnu::noinline]] void* malloc(std::size_t bytes) {  // NOLINT
  ++allocations;
  return __libc_malloc(bytes);
}
#endif

namespace rotary {
namespace {

// Ends this process: 0 if its first rotation allocated nothing, 1 if it did, 2 if `prepared` was not ROTARY_OK.
[[noreturn]] void end_by_first_rotation(rotary_status prepared) {
  const std::vector<float> cos(8, 0.0f), sin(8, 1.0f);
  const Table table = Table::borrow(cos, sin, 4, Pairing::half);
  std::vector<float> x(16, 1.0f);
  const Heads view = heads(x, thd(2, 1, 8));
  const int before = allocations;
  rotate(view, table);
  std::_Exit(prepared != ROTARY_OK ? 2 : allocations == before && x[0] == -1 ? 0 : 1);
}

// Each statement runs in a process that has not rotated.
TEST(Prepare, LeavesNothingToTheFirstRotation) {
  if (!COUNTS_MALLOC) GTEST_SKIP() << "malloc is not this program's";
  EXPECT_EXIT(end_by_first_rotation(ROTARY_OK), ::testing::ExitedWithCode(1), "");
  EXPECT_EXIT((prepare(), end_by_first_rotation(ROTARY_OK)), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(end_by_first_rotation(rotary_prepare()), ::testing::ExitedWithCode(0), "");
}

TEST(Prepare, RefusesATargetThatDoesNotRun) {
  setenv("ROTARY_TARGET", "abacus", 1);
  EXPECT_EXIT(std::_Exit(rotary_prepare() == ROTARY_TARGET ? 3 : 4), ::testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace rotary
