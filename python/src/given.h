// What a rotation is given: heads, as an array and a layout word; and rows, as a rotary.Table or somebody's arrays.
#pragma once

#include <vector>

#include "arrays.h"
#include "rotary/rotary.h"

namespace rotary::python {

// "bthd", "bhtd", "tbhd", "thd", "htd", "td", "hd", ...: b batch, t tokens, h heads in any order and each at most once,
// then d head_dim. What is left out has one.
class LayoutWord {
 public:
  LayoutWord(PyObject* word, const char* operation);  // throws SHAPE, also for None

  Layout of(const ArrayView& view, const char* name) const;        // throws SHAPE, DTYPE
  void check_type(const ArrayView& view, const char* name) const;  // throws DTYPE
  const char* operation() const noexcept { return operation_; }

 private:
  const char* operation_;
  std::string_view word_;
  int batch_ = -1, tokens_ = -1, heads_ = -1;
};

ConstHeads const_heads(const ArrayView& view, const LayoutWord& word, const char* name);
Heads writable_heads(const ArrayView& view, const LayoutWord& word, const char* name);  // throws VALUE: read-only

// object: a rotary.Table, a tuple (cos, sin, pairing, doubled), or an object whose attribute _rows is such a tuple.
// cos and sin: floats [tokens, columns], [batch, tokens, columns] or [batch, tokens, heads, columns] of any strides;
// doubled: "" (one column for each pair), "halves" (columns i and i + pairs are one) or "neighbours" (2i and 2i + 1),
// of which the first is read. Rows in f32, one after the other, are read where they lie if `borrows`, else copied: an
// array that is written to may be their memory. Throws TypeError for anything else, SHAPE, DTYPE, PAIRING, VALUE.
class GivenTable {
 public:
  GivenTable(PyObject* object, const char* operation, bool borrows);
  GivenTable(const GivenTable&) = delete;
  GivenTable& operator=(const GivenTable&) = delete;
  const Table& table() const noexcept { return *table_; }
  bool batched() const noexcept { return cos_view_ && cos_view_->ndim > 2; }

 private:
  void read_rows(PyObject* rows, const char* operation, bool borrows);

  const Table* table_ = nullptr;
  Ref rows_;
  std::optional<ArrayView> cos_view_, sin_view_;
  std::vector<float> cos_, sin_;
  std::optional<Table> own_;
};
std::vector<PyMethodDef> rows_methods();  // _doubling: _core.pyi

// ---- table_handle.cpp ----

// rotary._core._Rows, the base class of rotary.Table. Its attributes _torch_cos, _torch_sin and _torch_copies are what
// rotary._torch.tables.tensors_of makes of it when one is first asked for: torch.compile follows an attribute of C that
// is a tensor.
void add_rows_type(PyObject* module);
const Table* table_or_null(PyObject* object);  // null: it is no such table
std::vector<PyMethodDef> table_methods();      // _rows_at, _rows_of, _memory, _dlpack: _core.pyi

}  // namespace rotary::python
