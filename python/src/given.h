// The rows for a rotation, from a rotary.Table or the caller's arrays.
#pragma once

#include <vector>

#include "arrays.h"
#include "rotary/rotary.h"

namespace rotary::python {

// object: a rotary.Table, a tuple (cos, sin, pairing, doubled), or an object whose attribute _rows is such a tuple.
// cos and sin: floats [tokens, columns], [batch, tokens, columns] or [batch, tokens, heads, columns] of any strides;
// doubled: "" (one column for each pair), "halves" (columns i and i + pairs are one) or "neighbours" (2i and 2i + 1),
// of which the first is read. Contiguous rows in f32 are read where they lie if `borrows`, else copied, because an
// array that is written to may share their memory. Throws TypeError for anything else, SHAPE, DTYPE, PAIRING, VALUE.
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
std::vector<PyMethodDef> rows_methods();  // _doubling

// ---- table_handle.cpp ----

// rotary._core._Rows, the base class of rotary.Table. Its attributes _torch_cos, _torch_sin and _torch_copies are made
// by rotary._torch.tables.tensors_of on first use: torch.compile follows an attribute of C that is a tensor.
void add_rows_type(PyObject* module);
const Table* table_or_null(PyObject* object);  // null if it is no such table
std::vector<PyMethodDef> table_methods();      // _rows_at, _between, _rows_of, _memory, _dlpack

}  // namespace rotary::python
