// The rows of cos and sin for a rotation, from a rotary.Table or from the caller's arrays.
#pragma once

#include <vector>

#include "arrays.h"
#include "rotary/rotary.h"

namespace rotary::python {

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
std::vector<PyMethodDef> rows_methods();

// ---- table_handle.cpp ----

// Adds rotary._core._Rows, the base class of rotary.Table. Its attributes _torch_cos, _torch_sin and _torch_copies come
// from rotary._torch.tables.tensors_of on first use: torch.compile follows an attribute of C that is a tensor.
void add_rows_type(PyObject* module);
const Table* table_or_null(PyObject* object);  // null if the object is no rotary.Table
std::vector<PyMethodDef> table_methods();

}  // namespace rotary::python
