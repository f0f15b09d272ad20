// A Python that ends does not give the GIL back to a daemon thread. From 3.14 on the thread waits for ever. Older ones
// end it by pthread_exit, and glibc unwinds its stack with libgcc's unwinder, which must not meet a C++ frame: a wheel
// by zig has an unwinder of its own, and a noexcept function ends the process. Here the thread waits for ever too, in a
// cleanup handler of C, to which glibc jumps. pthread.h has that kind of handler for code without exceptions
// (CMakeLists.txt).
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#if !defined(_WIN32)  // Windows unwinds nothing
#include <pthread.h>
#include <unistd.h>
#endif

namespace rotary::python {

#if defined(_WIN32)
#define pthread_cleanup_push(handler, given) {
#define pthread_cleanup_pop(runs) }
#elif defined(__EXCEPTIONS)
#error "compile this file with -fno-exceptions"
#else
namespace {

void wait_for_ever(void*) {
  while (true) pause();
}

}  // namespace
#endif

void lock_again(PyThreadState* state) noexcept {
  pthread_cleanup_push(wait_for_ever, nullptr);
  PyEval_RestoreThread(state);
  pthread_cleanup_pop(0);
}

}  // namespace rotary::python
