// The threads of large calls, and when the GIL is given back.
#pragma once

#include <cstdint>
#include <memory>

#include "arrays.h"
#include "python.h"
#include "rotary/threads.h"

namespace rotary::python {

// Bytes from which a call is long enough to let other Python threads run, and to use several threads.
inline constexpr std::int64_t table_is_large = 16 * 1024;
inline constexpr std::int64_t heads_are_large = 64 * 1024;

// Made and used with the GIL; the executor serves without.
class Work {
 public:
  // kind: of torch's tensors, as many threads as torch uses, where set_num_threads() was not called.
  Work(std::int64_t bytes, std::int64_t large_from, Kind kind = Kind::other);
  bool large() const noexcept { return large_; }
  const Executor& executor() const noexcept { return pool_ ? *pool_ : serial(); }

 private:
  bool large_;
  std::shared_ptr<const ThreadPool> pool_;
};

PyObject* set_num_threads(PyObject*, PyObject* count);
PyObject* get_num_threads(PyObject*, PyObject*);
// In the child of a fork, which has the pool's memory without its threads: it makes a new one, and keeps the old
// untouched.
PyObject* forget_threads(PyObject*, PyObject*);

}  // namespace rotary::python
