#include "runtime/arithmetic.h"

#include "c/guarded.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace rotary::c {
namespace {

thread_local char sentence[1024];

}  // namespace

rotary_status failed(Code code, const char* text) noexcept {
  const std::size_t size = std::min(std::strlen(text), sizeof sentence - 1);
  std::memcpy(sentence, text, size);
  sentence[size] = '\0';
  return static_cast<rotary_status>(code) + 1;
}
const char* last_error() noexcept { return sentence; }

#if ROTARY_C_JUMPS

thread_local std::jmp_buf* way_out = nullptr;

namespace {

FailureHandler others = nullptr;

void leave(Code code, const char* text) {
  if (way_out != nullptr) std::longjmp(*way_out, failed(code, text));
  if (others != nullptr) others(code, text);
}

}  // namespace

void set_failure_handler() noexcept {
  const FailureHandler before = on_failure(leave);
  if (before != leave) others = before;
}

#endif

}  // namespace rotary::c
