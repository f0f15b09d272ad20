#include "runtime/arithmetic.h"

#include "c/guarded.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include "runtime/compiler.h"
#if !ROTARY_THROWS && !defined(__wasm__)
#include <csetjmp>
#endif

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

}  // namespace rotary::c
namespace rotary::detail {

using c::failed;

#if ROTARY_THROWS

rotary_status guard(void (*work)(const void*), const void* context) noexcept {
  try {
    work(context);
    return ROTARY_OK;
  } catch (const Error& error) {
    return failed(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return failed(Code::MEMORY, "[rotary] memory must suffice but ran out");
  } catch (const std::system_error&) {  // a pool whose threads did not start
    return failed(Code::MEMORY, "[rotary] the system must start the threads of a pool but refused");
  } catch (const std::exception& error) {
    return failed(Code::INTERNAL, error.what());
  }
}

#elif defined(__wasm__)  // has no longjmp: fail() ends the program, as in C++

rotary_status guard(void (*work)(const void*), const void* context) noexcept {
  work(context);
  return ROTARY_OK;
}

#else

namespace {

// The place to which fail() returns in this thread. The memory that the work holds by then is lost: it is not freed.
thread_local std::jmp_buf* way_out = nullptr;
std::atomic<FailureHandler> others = nullptr;

void leave(Code code, const char* text) {
  if (way_out != nullptr) std::longjmp(*way_out, failed(code, text));
  if (const FailureHandler handler = others) handler(code, text);
}

}  // namespace

rotary_status guard(void (*work)(const void*), const void* context) noexcept {
  std::jmp_buf here;
  std::jmp_buf* const before = way_out;
  const FailureHandler handler = on_failure(leave);
  if (handler != leave) others = handler;
  way_out = &here;
  const int status = setjmp(here);
  if (status == 0) work(context);
  way_out = before;
  return status;
}

#endif

}  // namespace rotary::detail
