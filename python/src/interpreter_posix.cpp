#include "interpreter.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace rotary::python {

void* function_of_interpreter(const char* name) { return dlsym(RTLD_DEFAULT, name); }

unsigned usable_cores() {
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return static_cast<unsigned>(CPU_COUNT(&allowed));
#endif
  return std::max(1U, std::thread::hardware_concurrency());
}

void call_in_children(void (*forget)()) { pthread_atfork(nullptr, nullptr, forget); }

}  // namespace rotary::python
