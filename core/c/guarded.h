// Errors on their way to C: a code, and a sentence for each thread.
#pragma once

#include "rotary/error.h"
#include "rotary/rotary_c.h"

namespace rotary::detail {

// Calls work(context). Out of line: handlers are large.
ROTARY_API rotary_status guard(void (*work)(const void* context), const void* context) noexcept;

}  // namespace rotary::detail
namespace rotary::c {

// Keeps the sentence for last_error() of this thread, cut to 1023 bytes. Returns the code.
ROTARY_API rotary_status failed(Code, const char* sentence) noexcept;
const char* last_error() noexcept;

template <class Work>
rotary_status guarded(const Work& work) noexcept {
  return detail::guard([](const void* context) { (*static_cast<const Work*>(context))(); }, &work);
}

}  // namespace rotary::c
