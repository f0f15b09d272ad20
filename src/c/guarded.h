// Errors on their way to C: a code, and a sentence for each thread.
#pragma once

#include <exception>
#include <new>

#include "rotary/error.h"
#include "rotary/rotary_c.h"
#include "runtime/compiler.h"

// Without exceptions fail() leaves a call by longjmp. WebAssembly has none: there it ends the program, as in C++.
#if !ROTARY_THROWS && !defined(__wasm__)
#define ROTARY_C_JUMPS 1
#include <csetjmp>
#else
#define ROTARY_C_JUMPS 0
#endif

namespace rotary::c {

// Keeps the sentence for last_error() of this thread, cut to 1023 bytes. Returns the code.
ROTARY_API rotary_status failed(Code, const char* sentence) noexcept;
const char* last_error() noexcept;

#if ROTARY_THROWS

template <class Work>
rotary_status guarded(const Work& work) noexcept {
  try {
    work();
    return ROTARY_OK;
  } catch (const Error& error) {
    return failed(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return failed(Code::MEMORY, "[rotary] memory must suffice but ran out");
  } catch (const std::exception& error) {
    return failed(Code::INTERNAL, error.what());
  }
}

#elif ROTARY_C_JUMPS

// Where fail() of this thread returns to. What the work holds by then is lost: its memory is not freed.
extern thread_local std::jmp_buf* way_out;
void set_failure_handler() noexcept;

template <class Work>
rotary_status guarded(const Work& work) noexcept {
  std::jmp_buf here;
  std::jmp_buf* const before = way_out;
  set_failure_handler();
  way_out = &here;
  const int status = setjmp(here);
  if (status == 0) work();
  way_out = before;
  return status;
}

#else

template <class Work>
rotary_status guarded(const Work& work) noexcept {
  work();
  return ROTARY_OK;
}

#endif

}  // namespace rotary::c
