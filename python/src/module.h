// The threads of large calls, the rows of cos and sin for a rotation, and the functions of each file for module.cpp.
#pragma once

#include <vector>

#include "arrays.h"
#include "rotary/rotary.h"
#include "rotary/threads.h"

namespace rotary::python {

// ---- threads ----

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

// ---- rows ----

// object is a rotary.Table, a tuple (cos, sin, pairing, doubled), or has such a tuple as its attribute _rows. cos and
// sin are floats [tokens, columns], [batch, tokens, columns] or [batch, tokens, heads, columns] of any strides. doubled
// is "" (one column for each pair), "halves" (columns i and i + pairs are equal) or "neighbours" (2i and 2i + 1 are);
// of two equal columns the first is read. With `borrows` contiguous rows in f32 are read where they lie; else they are
// copied, because an array that is written to may share their memory. Throws SHAPE, DTYPE, PAIRING, VALUE, and
// TypeError for other objects.
class GivenTable {
 public:
  GivenTable(PyObject* object, const char* operation, bool borrows);
  GivenTable(const GivenTable&) = delete;
  GivenTable& operator=(const GivenTable&) = delete;
  const Table& table() const noexcept { return *table_; }
  bool batched() const noexcept { return cos_view_ && cos_view_->ndim > 2; }

 private:
  const Table* table_ = nullptr;
  Ref rows_;
  std::optional<ArrayView> cos_view_, sin_view_;
  std::vector<float> cos_, sin_;
  std::optional<Table> own_;
};

// Adds rotary._core._Rows, the base class of rotary.Table. Its attributes _torch_cos, _torch_sin and _torch_copies come
// from rotary._torch.tables.tensors_of on first use: torch.compile follows an attribute of C that is a tensor.
void add_rows_type(PyObject* module);
const Table* table_or_null(PyObject* object);  // null if the object is no rotary.Table

// ---- the functions of each file ----

std::vector<PyMethodDef> rotate_methods();
std::vector<PyMethodDef> table_methods();
std::vector<PyMethodDef> tools_methods();

}  // namespace rotary::python
