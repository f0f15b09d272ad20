// The threads of large calls, and the release of the GIL; and the functions of the other files for module.cpp.
#pragma once

#include <vector>

#include "arrays.h"
#include "rotary/threads.h"

namespace rotary::python {

// The bytes from which a call is long enough to let other Python threads run, and to use several threads.
inline constexpr std::int64_t table_is_large = 16 * 1024;
inline constexpr std::int64_t heads_are_large = 64 * 1024;

// The work of a call. It is made and used with the GIL; its executor needs no GIL.
class Work {
 public:
  // kind: for torch's tensors the number of threads is torch's, unless set_num_threads() was called.
  Work(std::int64_t bytes, std::int64_t large_from, Kind kind = Kind::other);
  bool large() const noexcept { return large_; }
  const Executor& executor() const noexcept { return pool_ ? *pool_ : serial(); }

 private:
  bool large_;
  std::shared_ptr<const ThreadPool> pool_;
};

Ref set_num_threads(PyObject* count);
Ref get_num_threads();
// For the child of a fork, which has the pool's memory without its threads: makes a new pool, and leaves the old one
// untouched.
Ref forget_threads();

// ---- the functions of each file ----

std::vector<PyMethodDef> rotate_methods();
std::vector<PyMethodDef> tools_methods();

}  // namespace rotary::python
