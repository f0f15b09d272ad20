#include "module.h"

#include <algorithm>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace rotary::python {

namespace {

constexpr std::int64_t most_threads = 1024;

// Never destroyed: threads may still use the pool when the process ends.
struct Threads {
  unsigned wanted = 0;  // 0: not set
  std::array<std::shared_ptr<const ThreadPool>, 2> pools;  // [1] has torch's number; a call keeps its pool alive
};
Threads* threads = new Threads;

unsigned usable_cores() {
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return static_cast<unsigned>(CPU_COUNT(&allowed));
#endif
  return std::max(1U, std::thread::hardware_concurrency());
}

unsigned wanted() { return threads->wanted == 0 ? usable_cores() : threads->wanted; }

unsigned wanted_of_torch() {
  static PyObject* const asked = module_function("torch", "get_num_threads").release();
  const Ref count = checked(PyObject_CallObject(asked, nullptr));
  return static_cast<unsigned>(std::clamp<std::int64_t>(integer_of(count.get(), "threads"), 1, most_threads));
}

}  // namespace

thread_local PyThreadState* Unlocked::released_ = nullptr;

void Unlocked::heed_signals() {
  if (released_ == nullptr) return;
  lock_again(std::exchange(released_, nullptr));
  const bool stop = PyErr_CheckSignals() != 0;  // may run a handler in Python, which may call without the GIL
  released_ = PyEval_SaveThread();
  if (stop) throw Raised{};
}

Work::Work(std::int64_t bytes, std::int64_t large_from, Kind kind) : large_(bytes >= large_from) {
  if (!large_) return;
  const bool asks_torch = kind == Kind::torch && threads->wanted == 0;
  const unsigned count = asks_torch ? wanted_of_torch() : wanted();
  if (count == 1) return;
  std::shared_ptr<const ThreadPool>& pool = threads->pools[asks_torch ? 1 : 0];
  if (!pool || pool->concurrency() != count) pool = std::make_shared<const ThreadPool>(count);
  pool_ = pool;
}

Ref set_num_threads(PyObject* count) {
  const std::int64_t value = integer_of(count, "set_num_threads");
  if (value < 0 || value > most_threads) {
    fail(Code::VALUE, "set_num_threads", "the number of threads must be from 0 (all cores) to 1024 but got ", value);
  }
  threads->wanted = static_cast<unsigned>(value);
  threads->pools = {};
  return none();
}

Ref get_num_threads() { return checked(PyLong_FromUnsignedLong(wanted())); }

Ref forget_threads() {
  threads = new Threads{threads->wanted, {}};
  return none();
}

}  // namespace rotary::python
