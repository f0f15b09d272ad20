#include "threads.h"

#include <string>
#include <thread>

#if !defined(_WIN32)
#include <pthread.h>
#endif
#if defined(__linux__)
#include <sched.h>
#endif

namespace rotary::python {

namespace {

// Never destroyed: threads may still use the pool when the process ends.
struct Threads {
  unsigned wanted = 0;  // 0: not said
  std::shared_ptr<const ThreadPool> pool;
};
Threads* threads = new Threads;

unsigned cores() {
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return static_cast<unsigned>(CPU_COUNT(&allowed));
#endif
  const unsigned all = std::thread::hardware_concurrency();
  return all == 0 ? 1 : all;
}

unsigned wanted() { return threads->wanted == 0 ? cores() : threads->wanted; }

// The child of a fork has the pool's memory without its threads: it makes a new one, and keeps the old untouched.
void forget() { threads = new Threads{threads->wanted, nullptr}; }

}  // namespace

Work::Work(std::int64_t bytes, std::int64_t large_from) : large_(bytes >= large_from) {
  if (!large_ || wanted() == 1) return;
  if (!threads->pool) threads->pool = std::make_shared<const ThreadPool>(wanted());
  pool_ = threads->pool;
}

PyObject* set_num_threads(PyObject*, PyObject* count) {
  return guarded([&]() -> PyObject* {
    const std::int64_t value = integer_of(count, "set_num_threads");
    if (value < 0 || value > 1024) {
      fail(Code::VALUE, "set_num_threads",
           "the number of threads must be from 0 (all cores) to 1024 but got " + std::to_string(value));
    }
    threads->wanted = static_cast<unsigned>(value);
    threads->pool.reset();  // calls that use it keep it
    return Ref::borrowed(Py_None).release();
  });
}

PyObject* get_num_threads(PyObject*, PyObject*) { return PyLong_FromUnsignedLong(wanted()); }

void watch_forks() {
#if !defined(_WIN32)
  static const int watched = pthread_atfork(nullptr, nullptr, forget);
  (void)watched;
#endif
}

}  // namespace rotary::python
