// The threads of large calls, and the functions of the other files for module.cpp.
#pragma once

#include <vector>

#include "arrays.h"
#include "rotary/threads.h"

namespace rotary::python {

// From so many bytes on a call lets other threads of Python run, and uses several threads itself.
inline constexpr std::int64_t table_is_large = 16 * 1024;
inline constexpr std::int64_t heads_are_large = 64 * 1024;

// The work of a call: whether it is large, and its threads. It needs the GIL, its executor does not.
class Work {
 public:
  // With Kind::torch the number of threads is torch's, unless set_num_threads() was called.
  Work(std::int64_t bytes, std::int64_t large_from, Kind kind = Kind::other);
  bool large() const noexcept { return large_; }
  const Executor& executor() const noexcept { return pool_ ? *pool_ : serial(); }

 private:
  bool large_;
  std::shared_ptr<const ThreadPool> pool_;
};

Ref set_num_threads(PyObject* count);
Ref get_num_threads();
// Makes new pools in the child of a fork, which has the memory of the old ones without their threads, and leaves these
// untouched.
Ref forget_threads();

// ---- the functions of each file ----

std::vector<PyMethodDef> rotate_methods();
std::vector<PyMethodDef> tools_methods();

}  // namespace rotary::python
